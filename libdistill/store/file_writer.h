// A file that appears as a whole or not at all, in any store.
//
//   DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<FileWriter> file, CreateFile("s3://bucket/out/model.safetensors"));
//   DISTILL_RETURN_IF_ERROR(file->Append(bytes));
//   DISTILL_RETURN_IF_ERROR(file->Commit());
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

class FileWriter {
 public:
  // Without Commit nothing is left of the file; what was there under its name before stays.
  virtual ~FileWriter() = default;
  // May block while earlier bytes are sent. After an error nothing more can be written.
  [[nodiscard]] virtual absl::Status Append(absl::string_view bytes) = 0;
  // After the last Append, where Commit comes later: blocks until the bytes are there, but for the file's name.
  [[nodiscard]] virtual absl::Status Prepare() { return absl::OkStatus(); }
  // Blocks until the bytes are stored for good, under the file's name. Once.
  [[nodiscard]] virtual absl::Status Commit() = 0;
};

// The folder must exist on a local disk; in S3 there are none. NotFound, PermissionDenied; some errors come only with
// Append or Commit.
[[nodiscard]] absl::StatusOr<std::unique_ptr<FileWriter>> CreateFile(const std::string& path);

}  // namespace distill
