// GGUF, the format of llama.cpp (docs/formats.md, "GGUF"): metadata, and tensors of which many are quantised. They are
// read under transformers' names, in its order of rows and with its numbers (norms of Gemma, docs/formats.md), those
// that are quantised as float32.
//
//   DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> parts, GgufFilesIn(folder));
//   DISTILL_ASSIGN_OR_RETURN(auto file, GgufFile::Open(JoinPath(folder, parts.front())));
//   DISTILL_ASSIGN_OR_RETURN(const TensorView weight, file.Load("model.norm.weight"));
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/store/readable_file.h"
#include "libdistill/store/tensor_file.h"

namespace distill {

// Of an array only the number of its elements is kept.
struct GgufArray {
  int64_t count = 0;
};
using GgufValue = std::variant<int64_t, float, bool, std::string, GgufArray>;
using GgufMetadata = std::map<std::string, GgufValue>;

struct GgufTensor;  // gguf_header.h

class GgufFile : public TensorFile {
 public:
  // DataLoss: no GGUF file, truncated or damaged; nothing beyond the file's size is allocated. InvalidArgument: an
  // architecture or a tensor's type that is not read. NotFound: no such file. `first`: of a model in several files, the
  // first one, which alone has the metadata; null for that one itself.
  [[nodiscard]] static absl::StatusOr<GgufFile> Open(const std::string& path, const GgufMetadata* first = nullptr);
  // The same, of a file that is open; what is read of it is read through it.
  [[nodiscard]] static absl::StatusOr<GgufFile> Open(std::shared_ptr<const ReadableFile> file);

  const GgufMetadata& metadata() const { return metadata_; }
  // Whether a tensor is of fewer bits than 16.
  bool is_quantised() const { return is_quantised_; }

 private:
  explicit GgufFile(std::shared_ptr<const FileBytes> bytes) : TensorFile(std::move(bytes)) {}
  static absl::StatusOr<GgufFile> Of(std::shared_ptr<const FileBytes> bytes, const GgufMetadata* first);
  absl::Status Parse(const GgufMetadata* first);
  // The bytes that it takes.
  absl::StatusOr<int64_t> AddTensor(GgufTensor tensor, const GgufMetadata& of_model);

  GgufMetadata metadata_;
  bool is_quantised_ = false;
};

// The names of the files of a folder's model: one, or as many as NAME-00001-of-00003.gguf says, in order; empty where
// there is none. FailedPrecondition: files of several models, or parts are missing. NotFound: no such folder.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> GgufFilesIn(const std::string& folder);

// Whether a tensor of this name holds factors of the rotation's frequencies: no weight, config.json says what they come
// from.
bool IsGgufRopeFactors(const std::string& name);

// A text of the metadata; "" where there is none.
std::string GgufText(const GgufMetadata& metadata, const std::string& key);

// "llama.block_count" for the key "block_count": of the file's architecture. Null: there is none.
const GgufValue* FindOfModel(const GgufMetadata& metadata, const std::string& key);

}  // namespace distill
