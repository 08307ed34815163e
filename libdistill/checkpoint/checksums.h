// Checksums of a checkpoint's files, part by part, so that ranks can divide the work of checking them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/proto/checkpoint_messages.h"
#include "libdistill/store/followed_folder.h"

namespace distill {

inline constexpr uint64_t kChecksumPartBytes = 64 << 20;

// Reads the file through: its size, and the XXH3 of each `part_bytes` of it; an empty file has one part. NotFound where
// there is none.
[[nodiscard]] absl::StatusOr<FileEntry> Checksum(const std::string& folder, const std::string& name,
                                                 uint64_t part_bytes = kChecksumPartBytes);

// The same of bytes that pass by, in their order.
class RunningChecksum {
 public:
  explicit RunningChecksum(uint64_t part_bytes = kChecksumPartBytes);
  ~RunningChecksum();
  RunningChecksum(const RunningChecksum&) = delete;
  RunningChecksum& operator=(const RunningChecksum&) = delete;
  void Add(absl::string_view bytes);
  FileEntry Entry(const std::string& name) const;

 private:
  struct Part;
  const uint64_t part_bytes_;
  std::vector<PartHash> whole_parts_;
  std::unique_ptr<Part> part_;
};

// Of the files that are written into a folder, taken while their bytes pass by (store/followed_folder.h). Any thread.
class WrittenSums {
 public:
  // Lives no longer than this.
  FollowFile Follower();
  // Of a local file that was followed and has this version (ReadableFile::version) still; none for what other programs'
  // functions wrote, or wrote again: at the same length, too.
  std::optional<FileEntry> Find(const std::string& name, const std::string& version);
  // Of all that were followed.
  std::vector<FileEntry> All();

 private:
  class Sum;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Sum>> sums_;
};

// How many parts all files of a manifest have together.
int64_t CountParts(const CheckpointManifest& manifest);

// Reads one of them, counted over all files in their order. DataLoss: it is not as it was written; other errors are the
// system's.
[[nodiscard]] absl::Status CheckPart(const std::string& folder, const CheckpointManifest& manifest, int64_t part);

}  // namespace distill
