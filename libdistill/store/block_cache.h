// Blocks of files in memory, for readers that go through a file in small pieces here and there: each block is fetched
// once, neighbours in one request, and those that were not used for the longest go first.
//
//   const auto cache = std::make_shared<BlockCache>(BlockCacheOptions{.blocks = 256});
//   DISTILL_ASSIGN_OR_RETURN(file, OpenFile("s3://bucket/trials.hdf5"));
//   file = cache->Wrap(file);                 // several files may share one cache, and any threads may read them
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "libdistill/store/readable_file.h"

namespace distill {

struct BlockCacheOptions {
  int64_t block_bytes = 1 << 20;
  int64_t blocks = 64;  // that are kept; those that are being read come on top
};

class BlockCache : public std::enable_shared_from_this<BlockCache> {
 public:
  // Fewer than 512 bytes a block, or less than one block, are taken as these.
  explicit BlockCache(const BlockCacheOptions& options);

  // The same file, read through the cache. What is as large as half the cache passes it by. A failed fetch is not kept:
  // the next read asks again.
  std::shared_ptr<const ReadableFile> Wrap(std::shared_ptr<const ReadableFile> file);

  // Fills `out` as ReadableFile::ReadAt does. `number` tells the files apart.
  [[nodiscard]] absl::Status Read(int64_t number, const ReadableFile& file, int64_t offset, absl::Span<char> out);
  // Of the file, all of it: it is gone.
  void Forget(int64_t number);

 private:
  using Key = std::pair<int64_t, int64_t>;  // of the file, and which block of it
  struct Block {
    bool is_done = false;
    absl::Status status;
    std::string bytes;
    std::list<Key>::iterator age;
  };
  using Blocks = std::vector<std::shared_ptr<Block>>;

  Blocks Claim(int64_t number, int64_t first, int64_t last, std::vector<int64_t>& missing);
  void Fetch(int64_t number, const ReadableFile& file, const std::vector<int64_t>& missing, int64_t first,
             const Blocks& blocks);
  void EvictOldest();

  const int64_t block_bytes_, most_blocks_;
  std::mutex mutex_;
  std::condition_variable fetched_;
  std::map<Key, std::shared_ptr<Block>> blocks_;
  std::list<Key> ages_;  // the one used last comes first
  int64_t files_ = 0;
};

}  // namespace distill
