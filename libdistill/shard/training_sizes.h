// What training any module takes of a rank's memory, by kind, out of its parameters alone; and what an error says where
// memory ran out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "absl/status/status.h"
#include "libdistill/gradients/parameters.h"
#include "libdistill/tensor/peak_memory.h"

namespace distill {

struct TrainingShape {
  torch::Dtype dtype = torch::kFloat32;  // of the weights in use
  int zero_stage = 0;                    // 0 on one rank
  int world_size = 1;
  int64_t bucket_bytes = 25 << 20;
  std::vector<int64_t> block_of = {};  // of each parameter, in stage 3
};

// Bytes of one rank; the first rank's, which are never fewer than another's.
struct TrainingSizes {
  int64_t weights = 0;      // in use: the trained ones, in stage 3 with the two blocks that are gathered
  int64_t untrained = 0;    // of the same module: parameters without gradients, and buffers
  int64_t masters = 0;      // float32, beside narrower weights
  int64_t moments = 0;      // AdamW's two
  int64_t gradients = 0;    // float32
  NamedBytes besides = {};  // that the task holds (Task::HeldMemory)
  int64_t sum() const;
};

// By what the allocators of each kind tell of themselves, whether they have allocated yet or not.
TrainingSizes SizesOfTraining(const torch::nn::Module& module, const std::vector<TrainedParameter>& parameters,
                              const TrainingShape& shape);

// Of a process, where a pass has failed.
struct MemoryOfFailedPass {
  std::string batch;       // "micro-batch 2 of 8"
  int64_t now_bytes = 0;   // once what the pass had made is gone
  int64_t most_bytes = 0;  // that it had at any time
};

// Where memory of the host or a GPU ran out (and not of a disk): the error with sizes by kind, and what to lower. Other
// errors, and those that say it already, as they are.
absl::Status WithTrainingSizes(const absl::Status& error, const TrainingSizes& sizes, const TrainingShape& shape,
                               const std::optional<MemoryOfFailedPass>& pass);

}  // namespace distill
