// The safetensors format (docs/formats.md, "Weights"): a JSON header and raw tensors. A local file is read through a
// mapping, one of another store by the ranges of the tensors that are asked for.
//
//   DISTILL_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open("model.safetensors"));
//   DISTILL_ASSIGN_OR_RETURN(const TensorView weight, file.Load("model.norm.weight"));
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/store/readable_file.h"
#include "libdistill/store/tensor_file.h"
#include "libdistill/store/tensor_view.h"

namespace distill {

// StoredType::name of numbers that have eight bits, of which the weights are that scales stretch (weights_folder.h).
inline constexpr char kFloat8E4M3[] = "F8_E4M3", kFloat8E5M2[] = "F8_E5M2";

class SafetensorsFile : public TensorFile {
 public:
  // DataLoss: truncated, header longer than the file, overlapping or missing ranges, duplicate names, overflow,
  // deep JSON; nothing beyond the file's size is ever allocated. NotFound: no such file. InvalidArgument: a type that
  // is not supported.
  [[nodiscard]] static absl::StatusOr<SafetensorsFile> Open(const std::string& path);
  // The same, of a file that is open; what is read of it is read through it.
  [[nodiscard]] static absl::StatusOr<SafetensorsFile> Open(std::shared_ptr<const ReadableFile> file);

  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  explicit SafetensorsFile(std::shared_ptr<const FileBytes> bytes) : TensorFile(std::move(bytes)) {}
  static absl::StatusOr<SafetensorsFile> Of(std::shared_ptr<const FileBytes> bytes);
  absl::Status Parse();

  std::map<std::string, std::string> metadata_;
};

// Writes `path`, of any store. A local one is written directly and synced: callers that need atomicity write to a
// temporary name, see checkpoint/.
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
