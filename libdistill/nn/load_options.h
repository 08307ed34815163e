// How a model of any family comes out of a Hugging Face folder.
#pragma once

#include <string>

#include <torch/types.h>

#include "absl/status/statusor.h"

namespace distill {

struct LoadOptions {
  torch::Dtype dtype = torch::kFloat32;
  torch::Device device = torch::kCPU;
  // The weights of the model's blocks stay in their files, or are not drawn yet, until the ranks shard the model
  // (ShardFrozen, zero_stage 3): block by block, so that a model may be larger than a rank's memory. What they shard
  // are rank 0's values. GatedModel::LoadBlocks brings them otherwise, and must before to() or Save.
  bool blocks_later = false;
  // Whether the model drops in training what its config.json says (EnableDropout). What other programs write there is
  // often of no use to a student of a teacher, so it is to be asked for.
  bool dropout = false;
  // Whether quantised weights (FP8, MXFP4, GGUF) are read, as the numbers that they stand for: of a teacher, which is
  // not saved.
  bool dequantise = false;
};

// NotFound: there is no such folder, on this machine or in S3. Other errors are the store's.
[[nodiscard]] absl::Status CheckModelFolder(const std::string& folder);
// Whether the folder holds weights that the loaders would read. NotFound: no such folder; FailedPrecondition: it holds
// weights, but in files that are not read.
[[nodiscard]] absl::StatusOr<bool> HasWeights(const std::string& folder);

}  // namespace distill
