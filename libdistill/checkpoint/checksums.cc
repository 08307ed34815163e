#include "libdistill/checkpoint/checksums.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/layout.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/byte_stream.h"
#include "libdistill/store/files.h"
#include "libdistill/store/staged_folder.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

PartHash HashOf(const XXH3_state_t& state) {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return {.high = hash.high64, .low = hash.low64};
}

// Bytes [begin, end) of a local file.
absl::Status AddLocal(const ReadableFile& file, int64_t begin, int64_t end, RunningChecksum& sum) {
  constexpr int64_t kBlockBytes = 1 << 20;
  std::vector<char> block(static_cast<size_t>(std::min(kBlockBytes, end - begin)));
  while (begin < end) {
    const auto size = static_cast<size_t>(std::min(kBlockBytes, end - begin));
    DISTILL_RETURN_IF_ERROR(AsDiskError(file.ReadAt(begin, absl::MakeSpan(block.data(), size))));
    sum.Add({block.data(), size});
    begin += static_cast<int64_t>(size);
  }
  return absl::OkStatus();
}

// Of one behind a network, whose bytes are fetched ahead.
absl::Status AddRemote(std::shared_ptr<const ReadableFile> file, int64_t begin, int64_t end, RunningChecksum& sum) {
  absl::StatusOr<std::unique_ptr<ByteStream>> stream = StreamFile(std::move(file), begin, end);
  if (!stream.ok()) return AsDiskError(stream.status());
  std::vector<char> block(1 << 20);
  for (;;) {
    const absl::StatusOr<size_t> size = (*stream)->Read(absl::MakeSpan(block));
    if (!size.ok()) return AsDiskError(size.status());
    if (*size == 0) return absl::OkStatus();
    sum.Add({block.data(), *size});
  }
}

absl::Status Add(std::shared_ptr<const ReadableFile> file, int64_t begin, int64_t end, RunningChecksum& sum) {
  if (begin >= end) return absl::OkStatus();
  return IsRemote(file->path()) ? AddRemote(std::move(file), begin, end, sum) : AddLocal(*file, begin, end, sum);
}

}  // namespace

struct RunningChecksum::Part {
  XXH3_state_t state;
  uint64_t bytes = 0;
};

RunningChecksum::RunningChecksum(uint64_t part_bytes) : part_bytes_(part_bytes), part_(std::make_unique<Part>()) {
  XXH3_128bits_reset(&part_->state);
}

RunningChecksum::~RunningChecksum() = default;

void RunningChecksum::Add(absl::string_view bytes) {
  while (!bytes.empty()) {
    if (part_->bytes == part_bytes_) {
      whole_parts_.push_back(HashOf(part_->state));
      XXH3_128bits_reset(&part_->state);
      part_->bytes = 0;
    }
    const size_t taken = std::min<uint64_t>(bytes.size(), part_bytes_ - part_->bytes);
    XXH3_128bits_update(&part_->state, bytes.data(), taken);
    part_->bytes += taken;
    bytes.remove_prefix(taken);
  }
}

FileEntry RunningChecksum::Entry(const std::string& name) const {
  FileEntry entry{.name = name, .size_bytes = whole_parts_.size() * part_bytes_ + part_->bytes, .parts = whole_parts_};
  entry.parts.push_back(HashOf(part_->state));
  return entry;
}

absl::StatusOr<FileEntry> Checksum(const std::string& folder, const std::string& name, uint64_t part_bytes) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const ReadableFile> file, OpenFile(JoinPath(folder, name)));
  RunningChecksum sum(part_bytes);
  DISTILL_RETURN_IF_ERROR(Add(file, 0, file->size(), sum));
  return sum.Entry(name);
}

class WrittenSums::Sum : public FileFollower {
 public:
  void Add(absl::string_view bytes) override { sum_.Add(bytes); }
  void End(const std::string& version) override { version_ = version; }
  FileEntry Entry(const std::string& name) const { return sum_.Entry(name); }
  const std::string& version() const { return version_; }  // "": not complete

 private:
  RunningChecksum sum_;
  std::string version_;
};

FollowFile WrittenSums::Follower() {
  return [this](const std::string& name) -> std::shared_ptr<FileFollower> {
    auto sum = std::make_shared<Sum>();
    const std::lock_guard lock(mutex_);
    sums_[name] = sum;
    return sum;
  };
}

std::optional<FileEntry> WrittenSums::Find(const std::string& name, const std::string& version) {
  const std::lock_guard lock(mutex_);
  const auto found = sums_.find(name);
  if (found == sums_.end() || found->second->version() != version) return std::nullopt;
  return found->second->Entry(name);
}

std::vector<FileEntry> WrittenSums::All() {
  const std::lock_guard lock(mutex_);
  std::vector<FileEntry> entries;
  for (const auto& [name, sum] : sums_) entries.push_back(sum->Entry(name));
  return entries;
}

int64_t CountParts(const CheckpointManifest& manifest) {
  int64_t parts = 0;
  for (const FileEntry& file : manifest.files) parts += static_cast<int64_t>(file.parts.size());
  return parts;
}

absl::Status CheckPart(const std::string& folder, const CheckpointManifest& manifest, int64_t part) {
  auto file = manifest.files.begin();
  for (; part >= static_cast<int64_t>(file->parts.size()); ++file) part -= static_cast<int64_t>(file->parts.size());
  const std::string path = PathOfFile(folder, manifest, file->name);
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const ReadableFile> opened, OpenFile(path));
  const uint64_t offset = static_cast<uint64_t>(part) * manifest.part_bytes;
  const uint64_t bytes = std::min(manifest.part_bytes, file->size_bytes - offset);
  const auto begin = static_cast<int64_t>(offset);
  RunningChecksum sum(std::max<uint64_t>(bytes, 1));
  DISTILL_RETURN_IF_ERROR(Add(opened, begin, std::min(opened->size(), begin + static_cast<int64_t>(bytes)), sum));
  const FileEntry found = sum.Entry("");
  if (found.size_bytes == bytes && found.parts.front() == file->parts[part]) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, " is damaged: its checksum differs from the manifest's; ", kAdviceOnDamage));
}

}  // namespace distill
