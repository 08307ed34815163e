// The safetensors format (docs/formats.md): a JSON header and raw tensors, read through a mapping.
//
//   DISTILL_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open("model.safetensors"));
//   const TensorView* view = file.Find("model.norm.weight");
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/core/dtype.h"

namespace distill {

struct TensorView {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  const void* data = nullptr;  // lives as long as the file it came from
  int64_t size_bytes = 0;
};

class SafetensorsFile {
 public:
  // DataLoss: truncated, header longer than the file, overlapping or missing ranges, duplicate names, overflow,
  // deep JSON; nothing beyond the file's size is ever allocated. NotFound: no such file.
  [[nodiscard]] static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const TensorView* Find(const std::string& name) const;
  // Lets go of the memory that reading a tensor has taken: the pages of the mapping that are its alone. It can be read
  // again, out of the file. Nothing for a name that there is not.
  void Forget(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::shared_ptr<const void> mapping_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

// A model's weights in a Hugging Face folder: model.safetensors, or the shards that model.safetensors.index.json lists.
class SafetensorsFolder {
 public:
  [[nodiscard]] static absl::StatusOr<SafetensorsFolder> Open(const std::string& folder);
  // Names over all shards, each with its view and the file that holds it.
  const TensorView* Find(const std::string& name) const;
  void Forget(const std::string& name) const;  // as of a file
  std::vector<std::string> Names() const;
  const std::string& FileOf(const std::string& name) const;

 private:
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> file_of_;
};

// Writes and syncs `path` (directly: callers that need atomicity write to a temporary name, see checkpoint/).
[[nodiscard]] absl::Status WriteSafetensors(const std::string& path, const std::map<std::string, TensorView>& tensors,
                                            const std::map<std::string, std::string>& metadata);

// Takes the next bytes of a tensor; its error ends the file.
using ByteSink = absl::FunctionRef<absl::Status(absl::string_view bytes)>;
// Hands all bytes of a tensor to the sink, in any number of pieces; its error comes back as it is.
using TensorWriter = absl::FunctionRef<absl::Status(const std::string& name, ByteSink sink)>;

// The same file of tensors that are not in memory at one time: `tensors` tells types, shapes and sizes (data is not
// looked at), and `write` is called for one after the other, in the order of the file.
[[nodiscard]] absl::Status WriteSafetensors(const std::string& path, const std::map<std::string, TensorView>& tensors,
                                            const std::map<std::string, std::string>& metadata, TensorWriter write);

}  // namespace distill
