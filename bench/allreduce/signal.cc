#include "bench/allreduce/signal.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

struct alignas(128) Line {  // two cache lines, which some CPUs fetch together
  std::atomic<uint64_t> told;
};

// A line of each rank, in memory that all of them have mapped.
class Lines {
 public:
  static absl::StatusOr<Lines> Create(Communicator& comm) {
    Lines made(comm.world_size());
    // Named for rank 0's process, which the others hear of.
    double pid = comm.rank() == 0 ? static_cast<double>(getpid()) : 0;
    DISTILL_RETURN_IF_ERROR(comm.AllReduce(&pid, &pid, 1, DType::kFloat64, ReduceOp::kSum));
    const std::string name = absl::StrCat("/distill-bench-", static_cast<int64_t>(pid));
    if (comm.rank() == 0) DISTILL_RETURN_IF_ERROR(made.Map(name, O_CREAT | O_EXCL));
    DISTILL_RETURN_IF_ERROR(comm.Barrier());
    if (comm.rank() != 0) DISTILL_RETURN_IF_ERROR(made.Map(name, 0));
    DISTILL_RETURN_IF_ERROR(comm.Barrier());
    if (comm.rank() == 0) shm_unlink(name.c_str());
    return made;
  }
  Lines(Lines&& other) noexcept : ranks_(other.ranks_), lines_(std::exchange(other.lines_, nullptr)) {}
  Lines& operator=(Lines&&) = delete;
  ~Lines() {
    if (lines_ != nullptr) munmap(lines_, Bytes());
  }

  Line& operator[](int rank) { return lines_[rank]; }

 private:
  explicit Lines(int ranks) : ranks_(ranks) {}
  size_t Bytes() const { return static_cast<size_t>(ranks_) * sizeof(Line); }
  absl::Status Map(const std::string& name, int flags) {
    const int fd = shm_open(name.c_str(), O_RDWR | flags, 0600);
    if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("shm_open ", name));
    void* memory = MAP_FAILED;
    if (ftruncate(fd, static_cast<off_t>(Bytes())) == 0) {
      memory = mmap(nullptr, Bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    const int error = errno;
    close(fd);
    if (memory == MAP_FAILED) return absl::ErrnoToStatus(error, absl::StrCat("mapping ", name));
    lines_ = static_cast<Line*>(memory);
    return absl::OkStatus();
  }

  int ranks_;
  Line* lines_ = nullptr;
};

void Exchange(Lines& lines, int rank, int ranks, uint64_t turn, bool has_cores) {
  lines[rank].told.store(turn, std::memory_order_release);
  for (int other = 0; other < ranks; ++other) {
    while (lines[other].told.load(std::memory_order_acquire) < turn) {
      if (!has_cores) sched_yield();
    }
  }
}

}  // namespace

absl::StatusOr<double> SignalSeconds(Communicator& comm) {
  constexpr int kTimes = 300, kTurns = 100;
  const bool has_cores = comm.world_size() <= static_cast<int>(std::thread::hardware_concurrency());
  DISTILL_ASSIGN_OR_RETURN(Lines lines, Lines::Create(comm));
  double best = 1e9;
  uint64_t turn = 0;
  for (int i = 0; i < kTimes; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (int j = 0; j < kTurns; ++j) Exchange(lines, comm.rank(), comm.world_size(), ++turn, has_cores);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kTurns);
  }
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(&best, &best, 1, DType::kFloat64, ReduceOp::kMin));
  DISTILL_RETURN_IF_ERROR(comm.Barrier());  // nobody reads these lines any more
  return best;
}

}  // namespace distill
