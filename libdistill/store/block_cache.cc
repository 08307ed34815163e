#include "libdistill/store/block_cache.h"

#include <algorithm>

#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

class CachedFile : public ReadableFile {
 public:
  CachedFile(std::shared_ptr<BlockCache> cache, int64_t number, std::shared_ptr<const ReadableFile> file)
      : cache_(std::move(cache)), number_(number), file_(std::move(file)) {}
  ~CachedFile() override { cache_->Forget(number_); }

  const std::string& path() const override { return file_->path(); }
  int64_t size() const override { return file_->size(); }
  const std::string& version() const override { return file_->version(); }
  absl::Status ReadAt(int64_t offset, absl::Span<char> out) const override {
    DISTILL_RETURN_IF_ERROR(CheckRange(*this, offset, out.size()));
    return out.empty() ? absl::OkStatus() : cache_->Read(number_, *file_, offset, out);
  }

 private:
  const std::shared_ptr<BlockCache> cache_;
  const int64_t number_;
  const std::shared_ptr<const ReadableFile> file_;
};

}  // namespace

BlockCache::BlockCache(const BlockCacheOptions& options)
    : block_bytes_(std::max<int64_t>(512, options.block_bytes)), most_blocks_(std::max<int64_t>(1, options.blocks)) {}

std::shared_ptr<const ReadableFile> BlockCache::Wrap(std::shared_ptr<const ReadableFile> file) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::make_shared<CachedFile>(shared_from_this(), files_++, std::move(file));
}

absl::Status BlockCache::Read(int64_t number, const ReadableFile& file, int64_t offset, absl::Span<char> out) {
  const int64_t end = offset + static_cast<int64_t>(out.size());
  const int64_t first = offset / block_bytes_, last = (end - 1) / block_bytes_;
  if (last - first >= most_blocks_ / 2 && last > first) return file.ReadAt(offset, out);
  std::vector<int64_t> missing;
  const Blocks blocks = Claim(number, first, last, missing);
  Fetch(number, file, missing, first, blocks);
  std::unique_lock<std::mutex> lock(mutex_);
  for (const std::shared_ptr<Block>& block : blocks) {  // of which others may be fetching some
    fetched_.wait(lock, [&] { return block->is_done; });
    DISTILL_RETURN_IF_ERROR(block->status);
  }
  lock.unlock();  // bytes that are there never change
  for (int64_t i = first; i <= last; ++i) {
    const int64_t from = std::max(offset, i * block_bytes_), to = std::min(end, (i + 1) * block_bytes_);
    std::copy_n(blocks[i - first]->bytes.data() + (from - i * block_bytes_), to - from, out.data() + (from - offset));
  }
  return absl::OkStatus();
}

// The blocks [first, last]; those that nobody fetches yet are new, and for the caller to fetch.
BlockCache::Blocks BlockCache::Claim(int64_t number, int64_t first, int64_t last, std::vector<int64_t>& missing) {
  Blocks blocks;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (int64_t i = first; i <= last; ++i) {
    std::shared_ptr<Block>& block = blocks_[{number, i}];
    if (block == nullptr) {
      block = std::make_shared<Block>();
      block->age = ages_.insert(ages_.begin(), {number, i});
      missing.push_back(i);
    } else {
      ages_.splice(ages_.begin(), ages_, block->age);
    }
    blocks.push_back(block);
  }
  EvictOldest();
  return blocks;
}

// Neighbours in one request.
void BlockCache::Fetch(int64_t number, const ReadableFile& file, const std::vector<int64_t>& missing, int64_t first,
                       const Blocks& blocks) {
  for (size_t begin = 0, end = 0; begin < missing.size(); begin = end) {
    for (end = begin + 1; end < missing.size() && missing[end] == missing[end - 1] + 1;) ++end;
    const int64_t offset = missing[begin] * block_bytes_;
    const int64_t size = std::min(file.size(), (missing[end - 1] + 1) * block_bytes_) - offset;
    std::string bytes(static_cast<size_t>(size), '\0');
    const absl::Status status = file.ReadAt(offset, absl::MakeSpan(&bytes[0], bytes.size()));
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = begin; i < end; ++i) {
      Block& block = *blocks[missing[i] - first];
      block.status = status;
      block.is_done = true;
      if (status.ok()) {
        block.bytes = end - begin == 1 ? std::move(bytes) : bytes.substr((i - begin) * block_bytes_, block_bytes_);
        continue;
      }
      const auto kept = blocks_.find({number, missing[i]});
      if (kept == blocks_.end() || kept->second.get() != &block) continue;
      ages_.erase(block.age);
      blocks_.erase(kept);
    }
    fetched_.notify_all();
  }
}

// Who still reads one holds it.
void BlockCache::EvictOldest() {
  while (static_cast<int64_t>(ages_.size()) > most_blocks_) {
    blocks_.erase(ages_.back());
    ages_.pop_back();
  }
}

void BlockCache::Forget(int64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto at = blocks_.lower_bound({number, 0}); at != blocks_.end() && at->first.first == number;) {
    ages_.erase(at->second->age);
    at = blocks_.erase(at);
  }
}

}  // namespace distill
