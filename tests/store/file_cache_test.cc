#include "libdistill/store/file_cache.h"

#include <atomic>
#include <filesystem>
#include <thread>

#include "libdistill/core/status_macros.h"
#include "tests/support/captured_stderr.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill::testing {
namespace {

// Counts what is asked of the store.
class CountingFile : public ReadableFile {
 public:
  CountingFile(std::string path, std::string version, std::string bytes)
      : path_(std::move(path)), version_(std::move(version)), bytes_(std::move(bytes)) {}
  const std::string& path() const override { return path_; }
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  const std::string& version() const override { return version_; }
  absl::Status ReadAt(int64_t offset, absl::Span<char> out) const override {
    DISTILL_RETURN_IF_ERROR(CheckRange(*this, offset, out.size()));
    ++reads;
    std::copy_n(bytes_.data() + offset, out.size(), out.data());
    return absl::OkStatus();
  }
  mutable std::atomic<int> reads{0};

 private:
  const std::string path_, version_, bytes_;
};

std::string Digits(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>('0' + i * i % 10);
  return bytes;
}

std::string ReadWith(FileCache& cache, const std::shared_ptr<CountingFile>& file, int64_t offset, size_t size) {
  std::string bytes(size, '\0');
  REQUIRE(cache.Wrap(file)->ReadAt(offset, absl::MakeSpan(bytes)) == absl::OkStatus());
  return bytes;
}

std::vector<std::filesystem::path> BlocksIn(const TempFolder& folder) {
  std::vector<std::filesystem::path> blocks;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "cache")) blocks.push_back(entry.path());
  return blocks;
}

TEST_CASE("a block is fetched once, also by the next process") {
  const TempFolder folder;
  const std::string bytes = Digits(2500);
  const auto file = std::make_shared<CountingFile>("s3://b/k", "v1", bytes);
  for (int process = 0; process < 2; ++process) {
    const auto cache = *FileCache::Create(folder / "cache", 1 << 20, 1000);
    CHECK(ReadWith(*cache, file, 990, 20) == bytes.substr(990, 20));
    CHECK(ReadWith(*cache, file, 0, 2500) == bytes);
    CHECK(file->reads == 3);
  }
}

TEST_CASE("another version of a file is another file") {
  const TempFolder folder;
  const auto cache = *FileCache::Create(folder / "cache", 1 << 20, 1000);
  CHECK(ReadWith(*cache, std::make_shared<CountingFile>("s3://b/k", "v1", "old"), 0, 3) == "old");
  CHECK(ReadWith(*cache, std::make_shared<CountingFile>("s3://b/k", "v2", "new"), 0, 3) == "new");
}

TEST_CASE("a damaged block is found by its hash and fetched again") {
  const TempFolder folder;
  const std::string bytes = Digits(800);
  const auto file = std::make_shared<CountingFile>("s3://b/k", "v1", bytes);
  const auto cache = *FileCache::Create(folder / "cache", 1 << 20, 1000);
  CHECK(ReadWith(*cache, file, 0, 800) == bytes);
  const std::string name = "cache/" + BlocksIn(folder).at(0).filename().string();
  const std::string kept = folder.Read(name);
  for (const size_t at : {size_t{0}, size_t{31}, size_t{32}, kept.size() - 1}) {
    std::string damaged = kept;
    damaged[at] ^= 1;
    folder.Write(name, damaged);
    const CapturedStderr stderr_text;
    CHECK(ReadWith(*cache, file, 0, 800) == bytes);
    CHECK(folder.Read(name) == kept);
  }
  folder.Write(name, kept.substr(0, 100));
  CHECK(ReadWith(*cache, file, 0, 800) == bytes);
  CHECK(file->reads == 6);
}

TEST_CASE("the blocks that were not read for the longest go first") {
  const TempFolder folder;
  const std::string bytes = Digits(100'000);
  const auto file = std::make_shared<CountingFile>("s3://b/k", "v1", bytes);
  const auto cache = *FileCache::Create(folder / "cache", 10'500, 1000);
  for (int64_t block = 0; block < 100; ++block) {
    ReadWith(*cache, file, 1000 * block, 1000);
    ReadWith(*cache, file, 0, 10);  // always in use
  }
  CHECK(BlocksIn(folder).size() <= 11);
  CHECK(file->reads == 100);
}

TEST_CASE("where nothing can be kept, the file is read all the same") {
  const TempFolder folder;
  const auto cache = *FileCache::Create(folder / "cache", 1 << 20, 1000);
  std::filesystem::remove_all(folder / "cache");
  const auto file = std::make_shared<CountingFile>("s3://b/k", "v1", "text");
  const CapturedStderr stderr_text;
  CHECK(ReadWith(*cache, file, 1, 2) == "ex");
  CHECK(FileCache::Create("s3://bucket/cache", 1, 1).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("threads may read at the same time") {
  const TempFolder folder;
  const std::string bytes = Digits(20'000);
  const auto file = std::make_shared<CountingFile>("s3://b/k", "v1", bytes);
  const auto cache = *FileCache::Create(folder / "cache", 5000, 1000);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      std::string out(20'000, '\0');
      for (int i = 0; i < 5; ++i) {
        if (!cache->Wrap(file)->ReadAt(0, absl::MakeSpan(out)).ok() || out != bytes) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace distill::testing
