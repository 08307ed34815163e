// Bytes as an HDF5 file: all that is listed is opened and read, through the driver and a cache of small blocks. The
// first byte says which read of the store fails; 0: none. HDF5's own code is not instrumented: what it does to memory
// is seen where it crashes, and where it uses libc to do it.
#include "libdistill/store/hdf5_file.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "libdistill/core/check.h"

// HDF5 1.10 loses memory where it refuses a damaged file, and looking for what is ours among it after each input would
// take most of the time.
extern "C" int __lsan_is_turned_off() { return 1; }

// What it reads beyond its own buffers by calls of libc is its own; a crash is seen.
extern "C" const char* __asan_default_suppressions() { return "interceptor_via_lib:libhdf5"; }

// It asks for as much as a damaged file says, and takes it that there is none.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace distill {
namespace {

constexpr int64_t kMostBytes = 1 << 20;

class FailingFile : public ReadableFile {
 public:
  FailingFile(std::shared_ptr<const ReadableFile> file, int64_t failing) : file_(std::move(file)), failing_(failing) {}
  const std::string& path() const override { return file_->path(); }
  int64_t size() const override { return file_->size(); }
  const std::string& version() const override { return file_->version(); }
  absl::Status ReadAt(int64_t offset, absl::Span<char> out) const override {
    if (++reads_ == failing_) return absl::UnavailableError("the store is away");
    return file_->ReadAt(offset, out);
  }

 private:
  const std::shared_ptr<const ReadableFile> file_;
  const int64_t failing_;
  mutable std::atomic<int64_t> reads_ = 0;
};

// What may be said of a file: not that the reader has read beyond its end.
void CheckKind(const absl::Status& status) {
  DISTILL_CHECK(!absl::IsOutOfRange(status) && !absl::IsInternal(status) && !absl::IsUnknown(status),
                "a file's error is no reader's: " + status.ToString());
}

void TryDataset(const Hdf5File& file, const std::string& name) {
  const absl::StatusOr<Hdf5Dataset> dataset = file.Find(name);
  CheckKind(dataset.status());
  CheckKind(file.Attributes(name).status());
  if (!dataset.ok()) return;
  const std::vector<int64_t> begin(dataset->shape.size(), 0);
  std::vector<int64_t> count = dataset->shape;
  if (dataset->type.kind == Hdf5Kind::kString) {
    CheckKind(file.ReadStrings(*dataset, begin, count).status());
  } else {
    CheckKind(file.Check(*dataset, begin, count));
    CheckKind(file.ReadAll<double>(*dataset).status());
    CheckKind(file.ReadAll<int32_t>(*dataset).status());
  }
  for (int64_t& size : count) size = size / 2 + size % 2;  // a part of it
  CheckKind(file.Check(*dataset, begin, count));
}

}  // namespace
}  // namespace distill

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace distill;
  if (size == 0) return 0;
  auto bytes = MakeMemoryFile("fuzzed.hdf5", std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  Hdf5Options options;
  options.cache = std::make_shared<BlockCache>(BlockCacheOptions{.block_bytes = 512, .blocks = 6});
  options.most_chunk_bytes = options.most_read_bytes = kMostBytes;
  const auto file = Hdf5File::Open(std::make_shared<FailingFile>(std::move(bytes), data[0]), options);
  CheckKind(file.status());
  if (!file.ok()) return 0;
  CheckKind((*file)->Attributes("/").status());
  const auto names = (*file)->ListDatasets();
  CheckKind(names.status());
  if (!names.ok()) return 0;
  for (size_t i = 0; i < names->size() && i < 20; ++i) TryDataset(**file, (*names)[i]);
  return 0;
}
