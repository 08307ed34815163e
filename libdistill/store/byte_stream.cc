#include "libdistill/store/byte_stream.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <future>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

// Ranges of the file in order, `read_ahead` of them being fetched while the one before is read.
class RangeStream : public ByteStream {
 public:
  RangeStream(std::shared_ptr<const ReadableFile> file, int64_t begin, int64_t end, size_t read_ahead,
              int64_t range_bytes)
      : file_(std::move(file)),
        begin_(begin),
        next_(begin),
        end_(end),
        read_ahead_(read_ahead),
        range_bytes_(range_bytes) {}

  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    if (taken_ == range_.size() && !out.empty()) {
      absl::Status status = NextRange();
      if (!status.ok()) {
        fetching_.clear();
        next_ = end_;
        return status;
      }
    }
    const size_t size = std::min(out.size(), range_.size() - taken_);
    std::memcpy(out.data(), range_.data() + taken_, size);
    taken_ += size;
    return size;
  }

  int64_t bytes_read() const override { return handed_ - begin_ - static_cast<int64_t>(range_.size() - taken_); }

 private:
  using Range = absl::StatusOr<std::string>;

  // Leaves it empty at the end.
  absl::Status NextRange() {
    while (fetching_.size() < std::max<size_t>(1, read_ahead_) && next_ < end_) Fetch();
    range_.clear();
    taken_ = 0;
    if (fetching_.empty()) return absl::OkStatus();
    Range range = fetching_.front().get();
    fetching_.pop_front();
    if (!range.ok()) return range.status();
    range_ = *std::move(range);
    handed_ += static_cast<int64_t>(range_.size());
    // What takes the place of this one is on its way while it is read.
    if (read_ahead_ > 0 && next_ < end_) Fetch();
    return absl::OkStatus();
  }

  void Fetch() {
    const int64_t begin = next_;
    next_ = std::min(end_, begin + range_bytes_);
    const auto fetch = [file = file_, begin, size = static_cast<size_t>(next_ - begin)]() -> Range {
      std::string bytes(size, '\0');
      DISTILL_RETURN_IF_ERROR(file->ReadAt(begin, absl::MakeSpan(&bytes[0], size)));
      return bytes;
    };
    if (read_ahead_ > 0) {
      try {
        fetching_.push_back(std::async(std::launch::async, fetch));
        return;
      } catch (const std::system_error&) {  // no thread is to be had
      }
    }
    fetching_.push_back(std::async(std::launch::deferred, fetch));
  }

  const std::shared_ptr<const ReadableFile> file_;
  const int64_t begin_;
  int64_t next_;  // where the next range to be fetched begins
  const int64_t end_;
  const size_t read_ahead_;  // 0: a range is read when it is asked for
  const int64_t range_bytes_;
  std::deque<std::future<Range>> fetching_;
  std::string range_;  // that is read now
  size_t taken_ = 0;   // of it
  int64_t handed_ = begin_;
};

constexpr int64_t kLocalRangeBytes = int64_t{1} << 20;  // the kernel reads ahead by itself

}  // namespace

absl::StatusOr<std::unique_ptr<ByteStream>> StreamFile(std::shared_ptr<const ReadableFile> file, int64_t begin,
                                                       int64_t end) {
  if (end < 0) end = file->size();
  if (begin < 0 || begin > end || end > file->size()) {
    return absl::OutOfRangeError(
        absl::StrCat(file->path(), ": bytes ", begin, " to ", end, " of a file of ", file->size()));
  }
  if (!IsRemote(file->path())) return std::make_unique<RangeStream>(std::move(file), begin, end, 0, kLocalRangeBytes);
  const StoreOptions options = CurrentStoreOptions();
  return std::make_unique<RangeStream>(std::move(file), begin, end, static_cast<size_t>(options.read_ahead),
                                       options.range_mib << 20);
}

}  // namespace distill
