// A bounded copy, on a local disk, of what was read from a store behind a network: off unless a folder is named for it.
// Files are kept in blocks, each with a hash over its bytes that is checked whenever it is read; a damaged one is
// fetched again, with a warning. The blocks that were not read for the longest go first. Ranks of a host may share the
// folder.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/store/readable_file.h"

namespace distill {

class FileCache : public std::enable_shared_from_this<FileCache> {
 public:
  // Makes the folder. The errors of MakeFolder.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<FileCache>> Create(std::string folder, int64_t most_bytes,
                                                                         int64_t block_bytes);

  // The same file, read through the cache. What cannot be kept, since the disk is full, say, is read all the same.
  std::shared_ptr<const ReadableFile> Wrap(std::shared_ptr<const ReadableFile> file);

  // Bytes [block * block_bytes, ...) of the file, which has `size` of them there.
  [[nodiscard]] absl::StatusOr<std::string> ReadBlock(const ReadableFile& file, int64_t block, size_t size);

  int64_t block_bytes() const { return block_bytes_; }

 private:
  FileCache(std::string folder, int64_t most_bytes, int64_t block_bytes)
      : folder_(std::move(folder)), most_bytes_(most_bytes), block_bytes_(block_bytes) {}
  void Keep(const std::string& path, const std::string& bytes);
  void RemoveOldest();

  const std::string folder_;
  const int64_t most_bytes_;
  const int64_t block_bytes_;
  std::mutex mutex_;
  int64_t added_bytes_ = 0;  // since the folder was looked through
};

}  // namespace distill
