#include "launcher/rank_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"

namespace distill {
namespace {

constexpr size_t kKeptBytes = 4096;
constexpr int kKeptLines = 10;

// What cannot be written any more (a closed pipe, a lost terminal) is dropped.
void PassOn(const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = write(STDERR_FILENO, bytes, size);
    if (written < 0 && errno != EINTR) return;
    if (written <= 0) continue;
    bytes += written;
    size -= static_cast<size_t>(written);
  }
}

}  // namespace

// Lives as long as the thread, which may be stuck in a write that nobody reads.
struct RankOutput::Shared {
  struct Stream {
    int fd = -1;
    std::string kept;
    int64_t last = 0;  // when it wrote last, counted in pieces
  };

  ~Shared() {
    for (const Stream& stream : streams) {
      if (stream.fd >= 0) close(stream.fd);
    }
  }

  void PassAllOn() {
    std::vector<pollfd> entries;
    for (const Stream& stream : streams) entries.push_back({stream.fd, POLLIN, 0});
    while (std::any_of(entries.begin(), entries.end(), [](const pollfd& entry) { return entry.fd >= 0; })) {
      poll(entries.data(), entries.size(), -1);
      SetBusy(true);
      for (size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].revents != 0 && !PassSomeOn(streams[i])) entries[i].fd = -1;
      }
      SetBusy(false);
    }
  }

  // False at the end of the stream.
  bool PassSomeOn(Stream& stream) {
    std::array<char, 4096> bytes;
    const ssize_t count = read(stream.fd, bytes.data(), bytes.size());
    if (count <= 0) return count < 0 && errno == EINTR;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      stream.kept.append(bytes.data(), static_cast<size_t>(count));
      if (stream.kept.size() > kKeptBytes) stream.kept.erase(0, stream.kept.size() - kKeptBytes);
      stream.last = ++pieces;
    }
    PassOn(bytes.data(), static_cast<size_t>(count));
    return true;
  }

  void SetBusy(bool is_busy) {
    const std::lock_guard<std::mutex> lock(mutex);
    busy = is_busy;
  }

  // What was read before `busy` was asked for is seen there.
  bool HasMore() {
    for (const Stream& stream : streams) {
      int waiting = 0;
      if (stream.fd >= 0 && ioctl(stream.fd, FIONREAD, &waiting) == 0 && waiting > 0) return true;
    }
    const std::lock_guard<std::mutex> lock(mutex);
    return busy;
  }

  std::vector<Stream> streams;  // fds: fixed before the thread starts
  std::mutex mutex;
  // Guarded by `mutex`, as what the streams keep:
  int64_t pieces = 0;
  bool busy = false;
};

RankOutput::RankOutput(int ranks) : shared_(std::make_shared<Shared>()) {
  shared_->streams.resize(static_cast<size_t>(ranks));
}

// The read ends stay open with the thread: what ranks have left behind may write on.
RankOutput::~RankOutput() = default;

int RankOutput::OpenFor(int rank) {
  int ends[2];
  if (isatty(STDERR_FILENO) == 1 || pipe2(ends, O_CLOEXEC) != 0) return -1;
  shared_->streams[static_cast<size_t>(rank)].fd = ends[0];
  return ends[1];
}

absl::Status RankOutput::Start() {
  DISTILL_ASSIGN_OR_RETURN(std::thread thread,
                           StartThread("passing on what ranks write", [shared = shared_] { shared->PassAllOn(); }));
  thread.detach();
  return absl::OkStatus();
}

void RankOutput::Drain(absl::Duration limit) {
  const Deadline deadline = Deadline::After(limit);
  while (shared_->HasMore() && !deadline.Passed()) absl::SleepFor(absl::Milliseconds(1));
}

std::string RankOutput::LastLines(int rank) const {
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  std::string text = shared_->streams[static_cast<size_t>(rank)].kept;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  size_t begin = text.size();
  for (int line = 0; line < kKeptLines && begin != 0 && begin != std::string::npos; ++line) {
    begin = text.rfind('\n', begin - 1);
  }
  return begin == std::string::npos || begin == 0 ? text : text.substr(begin + 1);
}

bool RankOutput::OthersWroteAfter(int rank) const {
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  return shared_->streams[static_cast<size_t>(rank)].last < shared_->pieces;
}

}  // namespace distill
