// A model's weights in a Hugging Face folder, in whichever of these it has them, the first that there is:
// model.safetensors, the parts that model.safetensors.index.json lists, pytorch_model.bin, the parts that
// pytorch_model.bin.index.json lists, a GGUF file or its parts.
//
//   DISTILL_ASSIGN_OR_RETURN(const WeightsFolder weights, WeightsFolder::Open(folder));
//   DISTILL_ASSIGN_OR_RETURN(const TensorView weight, weights.Load("model.norm.weight"));
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "libdistill/store/scaled_weights.h"
#include "libdistill/store/tensor_file.h"

namespace distill {

class WeightsFolder {
 public:
  // Whether Open would find files to read.
  static bool IsIn(const std::string& folder);
  // Whether they would be GGUF.
  static bool IsGguf(const std::string& folder);
  // NotFound: there are none. Other errors are those of the files (safetensors.h, torch_file.h), and DataLoss where
  // an index does not fit them.
  [[nodiscard]] static absl::StatusOr<WeightsFolder> Open(const std::string& folder);

  // From now on a matrix W of eight-bit numbers is read as float32, multiplied by its scales W_scale or W_scale_inv
  // (docs/formats.md, "Quantised weights"): one for all of it, one for each row or, where `block` says so, for each
  // block. The scales, and those of activations and caches, are no tensors of the folder then. InvalidArgument, with
  // file and tensor: there are no scales, or not of such a shape. Reads nothing but scales' shapes.
  [[nodiscard]] absl::Status Scale(std::optional<ScaledBlock> block);

  // From now on two tensors W_blocks and W_scales of MXFP4 (store/mxfp4.h) are read as one, W, in bfloat16, and are no
  // tensors of the folder themselves. InvalidArgument, with file and tensor: one of the two is missing, W is there as
  // well, or types or shapes are others. Reads nothing but types and shapes.
  [[nodiscard]] absl::Status Unpack();

  // Whether the files are GGUF and hold tensors of fewer bits than 16, which are read as float32.
  bool has_gguf_blocks() const { return has_gguf_blocks_; }

  // As of a file, over all parts.
  const TensorView* Find(const std::string& name) const;
  [[nodiscard]] absl::StatusOr<TensorView> Load(const std::string& name) const;
  // As Load, in parts of the first dimension, of which one is in memory at a time where they are made: experts of MXFP4
  // one by one, any other tensor whole. An error of the sink ends it and comes back as it is.
  using PartSink = absl::FunctionRef<absl::Status(const TensorView& part)>;
  [[nodiscard]] absl::Status LoadInParts(const std::string& name, PartSink sink) const;
  void Forget(const std::string& name) const;
  std::vector<std::string> Names() const;
  // The part that holds it, of a weight and its scales the weight.
  const std::string& FileOf(const std::string& name) const;

 private:
  using OpenFunction = absl::StatusOr<TensorFile> (*)(const std::string& path);
  // The parts that an index names.
  absl::Status AddParts(const std::string& index_path, OpenFunction open);
  absl::Status AddGguf(const std::vector<std::string>& names);

  std::string folder_;
  std::vector<TensorFile> files_;
  std::map<std::string, size_t> file_of_;

  bool has_gguf_blocks_ = false;
  std::set<std::string> hidden_;  // scales and blocks
  // Of the weights that scales stretch: tensors of the files.
  struct Scaled {
    TensorView about;  // what is read
    std::string numbers;
    std::string scales;
    std::optional<ScaledBlock> block;  // none: MXFP4
  };
  std::map<std::string, Scaled> scaled_;

  absl::Status ScaleTensor(const std::string& name, std::optional<ScaledBlock> block);
  absl::Status UnpackTensor(const std::string& name, const std::string& blocks, const std::string& scales);
  // Hands the weight to the sink, or with `in_parts` one part after the other.
  absl::Status LoadScaled(const Scaled& scaled, bool in_parts, PartSink sink) const;
  // Of a tensor or a part of it as the files call it; null where they have none.
  const TensorFile* FileWith(const std::string& stored) const;
  // What the files call it.
  const std::string& StoredName(const std::string& name) const;
};

}  // namespace distill
