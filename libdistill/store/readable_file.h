// Bytes of a file that can be read anywhere, wherever it lives: on a local disk or under s3:// (docs/data.md,
// "Stores").
//
//   DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const ReadableFile> file, OpenFile("s3://bucket/train.parquet"));
//   std::string tail(8, '\0');
//   DISTILL_RETURN_IF_ERROR(file->ReadAt(file->size() - 8, absl::MakeSpan(tail)));
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace distill {

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;

  // As it was given to OpenFile; for messages.
  virtual const std::string& path() const = 0;
  virtual int64_t size() const = 0;
  // The same as long as the bytes are, and another where they changed: the ETag of an object; of a local file its size,
  // inode and time of change.
  virtual const std::string& version() const = 0;

  // Fills `out` with the bytes from `offset` on. Blocks; any thread, any number at a time. OutOfRange: they do not all
  // lie in the file. DataLoss: the file is another one than when it was opened, or its disk gave fewer bytes than it
  // has. Unavailable and DeadlineExceeded: the store gave nothing, also after retries.
  [[nodiscard]] virtual absl::Status ReadAt(int64_t offset, absl::Span<char> out) const = 0;
};

// NotFound, PermissionDenied, InvalidArgument where the path is a folder, or of a store that there is not. Unavailable:
// the store does not answer.
[[nodiscard]] absl::StatusOr<std::shared_ptr<const ReadableFile>> OpenFile(const std::string& path);

// A file of bytes in memory, for tests and for small parts that were read already.
std::shared_ptr<const ReadableFile> MakeMemoryFile(std::string path, std::string bytes);

// OutOfRange where [offset, offset + size) is not within the file. For implementations of ReadAt.
[[nodiscard]] absl::Status CheckRange(const ReadableFile& file, int64_t offset, size_t size);

// Its first bytes: `most` of them, or all.
[[nodiscard]] absl::StatusOr<std::string> ReadBeginning(const ReadableFile& file, int64_t most);

// All of it at once.
[[nodiscard]] absl::StatusOr<std::string> ReadAll(const ReadableFile& file);

}  // namespace distill
