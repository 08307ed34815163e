// A model's weights in a Hugging Face folder, in whichever of these it has them, the first that there is:
// model.safetensors, the parts that model.safetensors.index.json lists, pytorch_model.bin, the parts that
// pytorch_model.bin.index.json lists.
//
//   DISTILL_ASSIGN_OR_RETURN(const WeightsFolder weights, WeightsFolder::Open(folder));
//   DISTILL_ASSIGN_OR_RETURN(const TensorView weight, weights.Load("model.norm.weight"));
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/store/tensor_file.h"

namespace distill {

class WeightsFolder {
 public:
  // Whether Open would find files to read.
  static bool IsIn(const std::string& folder);
  // NotFound: there are none. Other errors are those of the files (safetensors.h, torch_file.h), and DataLoss where
  // an index does not fit them.
  [[nodiscard]] static absl::StatusOr<WeightsFolder> Open(const std::string& folder);

  // As of a file, over all parts.
  const TensorView* Find(const std::string& name) const;
  [[nodiscard]] absl::StatusOr<TensorView> Load(const std::string& name) const;
  void Forget(const std::string& name) const;
  std::vector<std::string> Names() const;
  // The part that holds it.
  const std::string& FileOf(const std::string& name) const;

 private:
  using OpenFunction = absl::StatusOr<TensorFile> (*)(const std::string& path);
  // The parts that an index names.
  absl::Status AddParts(const std::string& index_path, OpenFunction open);

  std::string folder_;
  std::vector<TensorFile> files_;
  std::map<std::string, size_t> file_of_;
};

}  // namespace distill
