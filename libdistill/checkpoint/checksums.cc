#include "libdistill/checkpoint/checksums.h"

#include <fcntl.h>
#include <unistd.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/layout.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/file_error.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

struct HashedPart {
  PartHash hash;
  uint64_t bytes = 0;  // fewer than were asked for at the file's end
};

absl::StatusOr<HashedPart> HashPart(int fd, const std::string& path, uint64_t offset, uint64_t bytes) {
  constexpr uint64_t kBlockBytes = 1 << 20;
  std::vector<char> block(std::min(kBlockBytes, bytes));
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  HashedPart part;
  while (part.bytes < bytes) {
    const size_t wanted = std::min(kBlockBytes, bytes - part.bytes);
    const ssize_t count = pread(fd, block.data(), wanted, static_cast<off_t>(offset + part.bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError("read", path, errno);
    if (count == 0) break;
    XXH3_128bits_update(&state, block.data(), static_cast<size_t>(count));
    part.bytes += static_cast<uint64_t>(count);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  part.hash = {.high = hash.high64, .low = hash.low64};
  return part;
}

}  // namespace

absl::StatusOr<FileEntry> Checksum(const std::string& folder, const std::string& name, uint64_t part_bytes) {
  const std::string path = JoinPath(folder, name);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError("open", path, errno);
  const absl::Cleanup closes = [fd] { close(fd); };
  FileEntry entry{.name = name, .size_bytes = 0, .parts = {}};
  for (;;) {
    DISTILL_ASSIGN_OR_RETURN(const HashedPart part, HashPart(fd, path, entry.size_bytes, part_bytes));
    if (part.bytes > 0 || entry.parts.empty()) entry.parts.push_back(part.hash);
    entry.size_bytes += part.bytes;
    if (part.bytes < part_bytes) return entry;
  }
}

int64_t CountParts(const CheckpointManifest& manifest) {
  int64_t parts = 0;
  for (const FileEntry& file : manifest.files) parts += static_cast<int64_t>(file.parts.size());
  return parts;
}

absl::Status CheckPart(const std::string& folder, const CheckpointManifest& manifest, int64_t part) {
  auto file = manifest.files.begin();
  for (; part >= static_cast<int64_t>(file->parts.size()); ++file) part -= static_cast<int64_t>(file->parts.size());
  const std::string path = JoinPath(folder, file->name);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError("open", path, errno);
  const absl::Cleanup closes = [fd] { close(fd); };
  const uint64_t offset = static_cast<uint64_t>(part) * manifest.part_bytes;
  const uint64_t bytes = std::min(manifest.part_bytes, file->size_bytes - offset);
  DISTILL_ASSIGN_OR_RETURN(const HashedPart found, HashPart(fd, path, offset, bytes));
  if (found.bytes == bytes && found.hash == file->parts[part]) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, " is damaged: its checksum differs from the manifest's; ", kAdviceOnDamage));
}

}  // namespace distill
