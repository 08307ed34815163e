// Bytes one after the other: of a file read from front to back, ahead of who asks where its store is far away, or out
// of a compressed one.
//
//   DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> bytes, StreamFile(file));
//   DISTILL_ASSIGN_OR_RETURN(bytes, Decompress(std::move(bytes), CompressionOf(file->path())));
//   for (;;) {
//     DISTILL_ASSIGN_OR_RETURN(const size_t size, bytes->Read(absl::MakeSpan(buffer)));
//     if (size == 0) break;
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libdistill/store/readable_file.h"

namespace distill {

// As much as readers of rows take at a time.
inline constexpr size_t kStreamChunkBytes = size_t{1} << 20;

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // The next bytes: as many as `out` holds or fewer, 0 only at the end. Blocks; one thread at a time. After an error
  // the stream is at its end. The errors are those of ReadableFile::ReadAt.
  [[nodiscard]] virtual absl::StatusOr<size_t> Read(absl::Span<char> out) = 0;
  // Bytes of the stored file that were asked for so far: of a compressed one, the compressed ones.
  virtual int64_t bytes_read() const = 0;
};

// Of bytes [begin, end) of the file; `end` -1: to its end. Of a file of a store that is far away, `read_ahead` ranges
// are fetched at a time, each by a thread of its own.
[[nodiscard]] absl::StatusOr<std::unique_ptr<ByteStream>> StreamFile(std::shared_ptr<const ReadableFile> file,
                                                                     int64_t begin = 0, int64_t end = -1);

}  // namespace distill
