#include "libdistill/store/file_cache.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/content_hash.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

constexpr size_t kHashLetters = 32;      // that a block's file begins with
constexpr int64_t kLookAfterParts = 16;  // the folder is looked through whenever a part of its limit was added

class CachedFile : public ReadableFile {
 public:
  CachedFile(std::shared_ptr<FileCache> cache, std::shared_ptr<const ReadableFile> file)
      : cache_(std::move(cache)), file_(std::move(file)) {}

  const std::string& path() const override { return file_->path(); }
  int64_t size() const override { return file_->size(); }
  const std::string& version() const override { return file_->version(); }

  absl::Status ReadAt(int64_t offset, absl::Span<char> out) const override {
    DISTILL_RETURN_IF_ERROR(CheckRange(*this, offset, out.size()));
    const int64_t block_bytes = cache_->block_bytes();
    while (!out.empty()) {
      const int64_t block = offset / block_bytes, begin = block * block_bytes;
      const auto size = static_cast<size_t>(std::min(block_bytes, file_->size() - begin));
      DISTILL_ASSIGN_OR_RETURN(const std::string bytes, cache_->ReadBlock(*file_, block, size));
      const auto skipped = static_cast<size_t>(offset - begin);
      const size_t taken = std::min(out.size(), size - skipped);
      std::memcpy(out.data(), bytes.data() + skipped, taken);
      out.remove_prefix(taken);
      offset += static_cast<int64_t>(taken);
    }
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<FileCache> cache_;
  const std::shared_ptr<const ReadableFile> file_;
};

std::string HashOf(absl::string_view bytes) { return ContentHash().Add(bytes).Hex(); }

struct Kept {
  std::filesystem::file_time_type used;
  int64_t bytes = 0;
  std::filesystem::path path;
};

}  // namespace

absl::StatusOr<std::shared_ptr<FileCache>> FileCache::Create(std::string folder, int64_t most_bytes,
                                                             int64_t block_bytes) {
  DISTILL_RETURN_IF_ERROR(RequireLocalPath(folder));
  DISTILL_RETURN_IF_ERROR(MakeFolder(folder));
  return std::shared_ptr<FileCache>(new FileCache(std::move(folder), most_bytes, block_bytes));
}

std::shared_ptr<const ReadableFile> FileCache::Wrap(std::shared_ptr<const ReadableFile> file) {
  return std::make_shared<CachedFile>(shared_from_this(), std::move(file));
}

absl::StatusOr<std::string> FileCache::ReadBlock(const ReadableFile& file, int64_t block, size_t size) {
  const std::string name = HashOf(absl::StrCat(file.path(), "\n", file.version(), "\n", block_bytes_));
  const std::string path = JoinPath(folder_, absl::StrCat(name, "-", block, ".block"));
  if (absl::StatusOr<std::string> kept = ReadFile(path); kept.ok()) {
    const std::string bytes = kept->size() == kHashLetters + size ? kept->substr(kHashLetters) : "";
    if (bytes.size() == size && HashOf(bytes) == kept->substr(0, kHashLetters)) {
      std::error_code ignored;  // of another user's file, say
      std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now(), ignored);
      return bytes;
    }
    LogWarning(absl::StrCat(path, ", which holds a part of ", file.path(), ", is damaged: it is fetched again"));
  }
  std::string bytes(size, '\0');
  DISTILL_RETURN_IF_ERROR(file.ReadAt(block * block_bytes_, absl::MakeSpan(&bytes[0], size)));
  Keep(path, bytes);
  return bytes;
}

void FileCache::Keep(const std::string& path, const std::string& bytes) {
  // Not synced: what a crash leaves is told by its hash.
  const std::string temporary = absl::StrCat(TemporaryName(path), ".part");
  absl::Status status = WriteWholeFile(temporary, absl::StrCat(HashOf(bytes), bytes));
  if (status.ok()) status = Rename(temporary, path);
  if (!status.ok()) LogWarning(absl::StrCat("nothing is kept in the cache: ", status.message()));
  const std::lock_guard<std::mutex> lock(mutex_);
  added_bytes_ += static_cast<int64_t>(bytes.size());
  if (!status.ok() || added_bytes_ * kLookAfterParts > most_bytes_) RemoveOldest();
}

void FileCache::RemoveOldest() {
  added_bytes_ = 0;
  std::vector<Kept> all;
  int64_t bytes = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // another rank removes, too
    const Kept kept{it->last_write_time(gone), static_cast<int64_t>(it->file_size(gone)), it->path()};
    if (gone) continue;
    all.push_back(kept);
    bytes += kept.bytes;
  }
  std::sort(all.begin(), all.end(), [](const Kept& a, const Kept& b) { return a.used < b.used; });
  for (const Kept& kept : all) {
    if (bytes <= most_bytes_) return;
    std::error_code gone;
    std::filesystem::remove(kept.path, gone);
    bytes -= kept.bytes;
  }
}

}  // namespace distill
