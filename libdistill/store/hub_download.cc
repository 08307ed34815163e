#include "libdistill/store/hub_download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/file_error.h"
#include "libdistill/store/growing_file_hash.h"

namespace distill {
namespace {

constexpr int kMostDownloadRedirects = 10;
// One connection that is slower than this is slowed down on its way, and more of them are faster.
constexpr double kFastBytesPerSecond = 200e6;
constexpr absl::Duration kJudgeAfter = absl::Seconds(1);
constexpr int64_t kPieceBytes = int64_t{16} << 20;
constexpr int kConnections = 8;

// The first byte of "bytes 10-19/20"; -1 where it is none.
int64_t FirstByteOf(absl::string_view content_range) {
  int64_t first = -1;
  if (!absl::ConsumePrefix(&content_range, "bytes ")) return -1;
  return absl::SimpleAtoi(content_range.substr(0, content_range.find('-')), &first) ? first : -1;
}

// The file as it grows, from its start to its end without gaps, and the hash of it.
class GrowingFile {
 public:
  GrowingFile(const HubFile& file, std::string path, HubProgress& progress)
      : file_(file), path_(std::move(path)), progress_(progress) {}
  ~GrowingFile() {
    hash_.reset();  // which reads from it
    if (fd_ >= 0) close(fd_);
  }
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

  // With what is there of it.
  absl::Status Open() {
    fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd_ < 0) return FileError("open", path_, errno);
    struct stat about = {};
    if (fstat(fd_, &about) != 0) return FileError("look at", path_, errno);
    if (about.st_size > file_.size) return Clear();
    DISTILL_RETURN_IF_ERROR(StartHash());
    Grow(about.st_size);
    progress_.Found(size_);
    return absl::OkStatus();
  }

  absl::Status Append(absl::string_view bytes) {
    if (size_ + static_cast<int64_t>(bytes.size()) > file_.size) {
      return absl::DataLossError(absl::StrCat("more bytes came than the ", file_.size, " of its listing"));
    }
    for (absl::string_view rest = bytes; !rest.empty();) {
      const ssize_t count = pwrite(fd_, rest.data(), rest.size(), size_ + (rest.data() - bytes.data()));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return FileError("write", path_, errno, file_.size - size_);
      rest.remove_prefix(static_cast<size_t>(count));
    }
    Grow(static_cast<int64_t>(bytes.size()));
    progress_.Came(static_cast<int64_t>(bytes.size()));
    return absl::OkStatus();
  }

  absl::Status Clear() {
    progress_.Found(-size_);
    hash_.reset();  // else it reads what is not there any more
    if (ftruncate(fd_, 0) != 0) return FileError("cut", path_, errno);
    return StartHash();
  }

  // Once all is there.
  absl::StatusOr<bool> HasRightHash() {
    DISTILL_ASSIGN_OR_RETURN(const std::string hex, hash_->Hex());
    return hex == file_.etag();
  }

 private:
  absl::Status StartHash() {
    size_ = 0;
    const bool is_of_git = file_.sha256.empty();  // kept by git itself
    const std::string prefix = is_of_git ? GitHeaderOf(file_.size) : "";
    DISTILL_ASSIGN_OR_RETURN(hash_,
                             GrowingFileHash::Start(is_of_git ? ShaKind::kSha1 : ShaKind::kSha256, prefix, fd_, path_));
    return absl::OkStatus();
  }

  void Grow(int64_t bytes) {
    size_ += bytes;
    hash_->GrownTo(size_);
  }

  const HubFile& file_;
  const std::string path_;
  HubProgress& progress_;
  int fd_ = -1;
  int64_t size_ = 0;
  std::unique_ptr<GrowingFileHash> hash_;
};

class Download {
 public:
  Download(HubClient& hub, const HubRepository& at_commit, const HubFile& file, GrowingFile& out)
      : hub_(hub), at_commit_(at_commit), file_(file), out_(out) {}

  // All that is not there yet.
  absl::Status Fetch() {
    while (out_.size() < file_.size) {
      const int64_t before = out_.size();
      const absl::Status status = FetchMore();
      // A connection that breaks after hours is not the last one of so many attempts.
      if (!status.ok() && !(MayHelpToRetry(status) && out_.size() > before)) {
        return Annotate(status, absl::StrCat("cannot ", What()));
      }
    }
    return absl::OkStatus();
  }

 private:
  std::string What() const { return absl::StrCat("download ", at_commit_.name, " (", file_.path, ")"); }

  absl::Status FetchMore() {
    if (is_slow_ && has_ranges_ && file_.size - out_.size() > kPieceBytes) return FetchPieces();
    const absl::Status status = Retry(hub_.retry(), hub_.counters(), What(), [&] { return Stream(); });
    return absl::IsCancelled(status) ? absl::OkStatus() : status;  // too slow to go on alone
  }

  HubRequest RequestOf(int64_t first, int64_t end) const {
    HubRequest request{.action = "download", .repository = at_commit_, .file = file_.path};
    request.path = absl::StrCat(at_commit_.Page(), "/resolve/", at_commit_.revision, "/",
                                PercentEncode(file_.path, /*keep_slashes=*/true));
    request.max_redirects = kMostDownloadRedirects;
    request.headers.emplace_back("accept-encoding", "identity");  // else a range is one of what was compressed
    if (first > 0 || end < file_.size) {
      request.headers.emplace_back("range",
                                   absl::StrCat("bytes=", first, "-", end < file_.size ? absl::StrCat(end - 1) : ""));
    }
    return request;
  }

  // All the rest by one request, straight into the file. Cancelled: it is slow.
  absl::Status Stream() {
    const int64_t first = out_.size();
    const absl::Time start = absl::Now();
    HubRequest request = RequestOf(first, file_.size);
    request.begin_body = [&](const HttpResponse& head) -> absl::Status {
      if (first == 0) return absl::OkStatus();
      if (head.status == 206 && FirstByteOf(head.Header("content-range")) == first) return absl::OkStatus();
      if (head.status == 206) return absl::DataLossError("another range came than was asked for");
      has_ranges_ = false;  // all of it comes
      return out_.Clear();
    };
    request.sink = [&](absl::string_view bytes) -> absl::Status {
      DISTILL_RETURN_IF_ERROR(out_.Append(bytes));
      hub_.counters().bytes_read += static_cast<int64_t>(bytes.size());
      const absl::Duration took = absl::Now() - start;
      if (!has_ranges_ || took < kJudgeAfter || file_.size - out_.size() < 2 * kPieceBytes) return absl::OkStatus();
      is_slow_ = static_cast<double>(out_.size() - first) < kFastBytesPerSecond * absl::ToDoubleSeconds(took);
      return is_slow_ ? absl::CancelledError() : absl::OkStatus();
    };
    DISTILL_RETURN_IF_ERROR(hub_.SendOnce(request).status());
    if (out_.size() < file_.size) return absl::UnavailableError("the answer ended too early");
    return absl::OkStatus();
  }

  // The rest by ranges, several at a time, of which each waits in memory for those before it.
  absl::Status FetchPieces() {
    next_ = appended_ = out_.size();
    failure_ = absl::OkStatus();
    std::vector<std::thread> threads;
    for (int i = 0; i < kConnections; ++i) {
      absl::StatusOr<std::thread> thread = StartThread("downloading", [this] { WorkOnPieces(); });
      if (thread.ok()) threads.push_back(*std::move(thread));
    }
    if (threads.empty()) WorkOnPieces();
    for (std::thread& thread : threads) thread.join();
    if (absl::IsCancelled(failure_)) return absl::OkStatus();  // there are no ranges: the next request is for all
    return failure_;
  }

  void WorkOnPieces() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!failure_.ok() || next_ >= file_.size) return;
      const int64_t first = std::exchange(next_, std::min(next_ + kPieceBytes, file_.size));
      const int64_t end = next_;
      lock.unlock();
      std::string bytes;
      absl::Status status = FetchPiece(first, end, bytes);
      lock.lock();
      changed_.wait(lock, [&] { return appended_ == first || !failure_.ok(); });
      if (!failure_.ok()) return;
      if (status.ok()) status = out_.Append(bytes);
      appended_ = end;
      failure_ = status;
      changed_.notify_all();
    }
  }

  absl::Status FetchPiece(int64_t first, int64_t end, std::string& bytes) {
    bytes.reserve(static_cast<size_t>(end - first));
    HubRequest request = RequestOf(first, end);
    request.begin_body = [&](const HttpResponse& head) -> absl::Status {
      if (head.status == 206 && FirstByteOf(head.Header("content-range")) == first) return absl::OkStatus();
      if (head.status == 206) return absl::DataLossError("another range came than was asked for");
      has_ranges_ = false;
      return absl::CancelledError("the server gives no ranges");
    };
    request.sink = [&](absl::string_view more) -> absl::Status {
      if (static_cast<int64_t>(bytes.size() + more.size()) > end - first) {
        return absl::DataLossError("more bytes came than were asked for");
      }
      bytes.append(more.data(), more.size());
      hub_.counters().bytes_read += static_cast<int64_t>(more.size());
      return absl::OkStatus();
    };
    return Retry(hub_.retry(), hub_.counters(), What(), [&]() -> absl::Status {
      bytes.clear();
      DISTILL_RETURN_IF_ERROR(hub_.SendOnce(request).status());
      if (static_cast<int64_t>(bytes.size()) == end - first) return absl::OkStatus();
      return absl::UnavailableError("the answer ended too early");
    });
  }

  HubClient& hub_;
  const HubRepository& at_commit_;
  const HubFile& file_;
  GrowingFile& out_;
  std::atomic<bool> has_ranges_{true};
  bool is_slow_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t next_ = 0;      // the next piece that is asked for
  int64_t appended_ = 0;  // all before it is in the file
  absl::Status failure_;
};

}  // namespace

void HubProgress::Found(int64_t bytes) { found_ += bytes; }

void HubProgress::Came(int64_t bytes) {
  came_ += bytes;
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || absl::Now() - told_ < interval_) return;
  told_ = absl::Now();
  Tell();
}

void HubProgress::Tell() {
  const double rate = static_cast<double>(came_) / absl::ToDoubleSeconds(age());
  const auto all = static_cast<double>(bytes_), there = static_cast<double>(found_ + came_);
  LogInfo(absl::StrFormat("downloading %s: %.0f %% of %.1f MB, %.1f MB/s, %.0f s left", name_,
                          100 * there / std::max(all, 1.0), all / 1e6, rate / 1e6, std::max(all - there, 0.0) / rate));
}

absl::Status DownloadHubFile(HubClient& hub, const HubRepository& at_commit, const HubFile& file,
                             const std::string& blob_path, HubProgress& progress) {
  GrowingFile out(file, absl::StrCat(blob_path, ".incomplete"), progress);
  DISTILL_RETURN_IF_ERROR(out.Open());
  for (const bool is_last : {false, true}) {
    absl::Status status = Download(hub, at_commit, file, out).Fetch();
    bool is_right = false;
    if (status.ok()) {
      DISTILL_ASSIGN_OR_RETURN(is_right, out.HasRightHash());
    }
    if (is_right) {
      DISTILL_RETURN_IF_ERROR(Sync(out.path()));  // else a crash may leave the name, and fewer bytes
      return Rename(out.path(), blob_path);
    }
    if (status.ok())
      status = absl::DataLossError(absl::StrCat(file.path, ": its bytes do not have the hash ", file.etag()));
    if (!absl::IsDataLoss(status)) return status;
    DISTILL_RETURN_IF_ERROR(out.Clear());
    if (is_last) {
      return Annotate(absl::DataLossError(absl::StrCat(
                          status.message(), ", also when they were fetched again: something between here and ",
                          hub.settings().endpoint, " changes them; try another network, or another HF_ENDPOINT")),
                      at_commit.name);
    }
    LogWarning(absl::StrCat(at_commit.name, ": ", status.message(), "; it is fetched again"));
  }
  return absl::OkStatus();
}

}  // namespace distill
