#include "libdistill/comm/communicator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// For backends that take any pointer as it is.
class PlainMemory : public CommMemory {
 public:
  static absl::StatusOr<std::unique_ptr<CommMemory>> Create(int64_t bytes) {
    void* data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
      return absl::ResourceExhaustedError(absl::StrCat("no ", bytes, " bytes of memory: ", std::strerror(errno)));
    }
    return std::unique_ptr<CommMemory>(new PlainMemory(static_cast<char*>(data), bytes));
  }
  ~PlainMemory() override { munmap(data(), static_cast<size_t>(bytes())); }

 private:
  using CommMemory::CommMemory;
};

}  // namespace

const char* NameOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kProduct:
      return "product";
  }
  return "unknown";
}

std::string Communicator::Describe(int rank) const {
  return names_.empty() ? absl::StrCat("rank ", rank) : names_[static_cast<size_t>(rank)];
}

absl::Status Communicator::Attach(std::shared_ptr<Rendezvous> rendezvous, absl::Duration timeout,
                                  absl::Duration grace) {
  const absl::Status attached = lifeline_.Attach(std::move(rendezvous), timeout, grace,
                                                 [this](const CommCall& call) { return DescribeCall(call, "on"); });
  if (attached.ok()) return attached;
  poison_ = Annotate(attached, Describe(rank_));
  lifeline_.Announce(poison_);
  Abandon(poison_);
  return poison_;
}

std::string Communicator::DescribeCall(const CommCall& call, const char* where) const {
  const std::string whom = call.peer < 0 ? "" : absl::StrCat(" rank ", call.peer);
  return absl::StrCat(call.operation, whom, " number ", call.number, " over ", backend(), " ", where, " ",
                      Describe(rank_), " of ", world_size_, " ranks",
                      error_context_ ? absl::StrCat(" (", error_context_(), ")") : "");
}

absl::Status Communicator::Guard(CommCall about, int64_t& number, absl::FunctionRef<absl::Status()> call) {
  if (!poison_.ok()) return poison_;
  about.number = ++number;
  current_ = about;
  lifeline_.Enter(about);
  absl::Status status = lifeline_.broken() ? lifeline_.Check() : RunCall(call);
  if (absl::IsDeadlineExceeded(status) && about.peer < 0 && !is_part_ && asks_who_is_late()) {
    status = lifeline_.FindLate(about.number, status);
  }
  if (!status.ok()) {
    poison_ = is_part_ ? status : Annotate(status, DescribeCall(about, "failed on"));
    lifeline_.Announce(poison_);
    Abandon(poison_);
  }
  lifeline_.Leave();
  return poison_;
}

absl::Status Communicator::Guard(const CommCall& about, absl::FunctionRef<absl::Status()> call) {
  return Guard(about, sequence_, [&]() -> absl::Status {
    if (compares_calls_ && world_size_ > 1) DISTILL_RETURN_IF_ERROR(CompareWithPeers(about));
    return call();
  });
}

void Communicator::EndPart(const absl::Status& error) {
  if (!poison_.ok()) return;
  poison_ = error;
  Abandon(poison_);
}

absl::Status Communicator::GuardPair(const char* operation, int peer, std::vector<int64_t>& numbers,
                                     absl::FunctionRef<absl::Status()> call) {
  if (peer >= 0 && peer < world_size_ && peer != rank_) {
    return Guard({.operation = operation, .peer = peer}, numbers[static_cast<size_t>(peer)], call);
  }
  int64_t none = 0;
  return Guard({.operation = operation, .peer = peer < 0 ? rank_ : peer}, none, [&]() -> absl::Status {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", peer, " in a world of ", world_size_, " is no other rank than this one"));
  });
}

absl::Status Communicator::CheckRoot(int root) const {
  if (root >= 0 && root < world_size_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("root ", root, " in a world of ", world_size_));
}

// `blocks`: how many times `count` elements the larger buffer holds.
absl::Status Communicator::CheckBuffers(const void* send, const void* receive, int64_t count, int64_t blocks,
                                        DType dtype, Placement placement) const {
  if (count < 0) return absl::InvalidArgumentError(absl::StrCat("a count of ", count, " elements"));
  if (count > std::numeric_limits<int64_t>::max() / blocks / SizeOf(dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(count, " elements are more bytes than 63 bits count"));
  }
  if (count > 0 && (send == nullptr || receive == nullptr)) return absl::InvalidArgumentError("a null buffer");
  return CheckPlacement(placement);
}

absl::Status Communicator::CheckPlacement(Placement placement) const {
  if (!placement.on_device || takes_device_memory()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("buffers in device memory, which ", backend(), " does not take: stage them through host memory"));
}

absl::Status Communicator::AllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                     Placement placement) {
  return Guard({.operation = "all-reduce", .count = count, .dtype = dtype, .op = static_cast<int>(op)},
               [&]() -> absl::Status {
                 DISTILL_RETURN_IF_ERROR(CheckBuffers(send, receive, count, 1, dtype, placement));
                 return count == 0 ? absl::OkStatus() : DoAllReduce(send, receive, count, dtype, op, placement);
               });
}

absl::Status Communicator::ReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                         Placement placement) {
  return Guard({.operation = "reduce-scatter", .count = count, .dtype = dtype, .op = static_cast<int>(op)},
               [&]() -> absl::Status {
                 DISTILL_RETURN_IF_ERROR(CheckBuffers(send, receive, count, world_size_, dtype, placement));
                 return count == 0 ? absl::OkStatus() : DoReduceScatter(send, receive, count, dtype, op, placement);
               });
}

absl::Status Communicator::AllGather(const void* send, void* receive, int64_t count, DType dtype, Placement placement) {
  return Guard({.operation = "all-gather", .count = count, .dtype = dtype}, [&]() -> absl::Status {
    DISTILL_RETURN_IF_ERROR(CheckBuffers(send, receive, count, world_size_, dtype, placement));
    return count == 0 ? absl::OkStatus() : DoAllGather(send, receive, count, dtype, placement);
  });
}

absl::Status Communicator::Broadcast(void* buffer, int64_t count, DType dtype, int root, Placement placement) {
  return Guard({.operation = "broadcast", .count = count, .dtype = dtype, .root = root}, [&]() -> absl::Status {
    DISTILL_RETURN_IF_ERROR(CheckBuffers(buffer, buffer, count, 1, dtype, placement));
    DISTILL_RETURN_IF_ERROR(CheckRoot(root));
    return count == 0 ? absl::OkStatus() : DoBroadcast(buffer, count, dtype, root, placement);
  });
}

absl::Status Communicator::Reduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op, int root,
                                  Placement placement) {
  return Guard(
      {.operation = "reduce", .count = count, .dtype = dtype, .op = static_cast<int>(op), .root = root},
      [&]() -> absl::Status {
        DISTILL_RETURN_IF_ERROR(CheckRoot(root));
        DISTILL_RETURN_IF_ERROR(CheckBuffers(send, root == rank_ ? receive : send, count, 1, dtype, placement));
        return count == 0 ? absl::OkStatus() : DoReduce(send, receive, count, dtype, op, root, placement);
      });
}

absl::Status Communicator::AllToAll(const void* send, void* receive, int64_t count, DType dtype, Placement placement) {
  return Guard({.operation = "all-to-all", .count = count, .dtype = dtype}, [&]() -> absl::Status {
    DISTILL_RETURN_IF_ERROR(CheckBuffers(send, receive, count, world_size_, dtype, placement));
    if (count == 0) return absl::OkStatus();
    const auto from = reinterpret_cast<uintptr_t>(send);
    const auto to = reinterpret_cast<uintptr_t>(receive);
    const auto bytes = static_cast<uintptr_t>(world_size_ * count * SizeOf(dtype));
    if (from < to + bytes && to < from + bytes) return absl::InvalidArgumentError("the two buffers overlap");
    return DoAllToAll(send, receive, count, dtype, placement);
  });
}

absl::Status Communicator::Send(const void* data, int64_t count, DType dtype, int peer, Placement placement) {
  return GuardPair("send to", peer, sent_, [&]() -> absl::Status {
    DISTILL_RETURN_IF_ERROR(CheckBuffers(data, data, count, 1, dtype, placement));
    const absl::Status sent = count == 0 ? absl::OkStatus() : DoSend(data, count, dtype, peer, placement);
    if (!absl::IsDeadlineExceeded(sent) || is_part_) return sent;
    return absl::DeadlineExceededError(absl::StrCat(sent.message(), ": ", Describe(peer),
                                                    " did not receive (of ranks that send to each other, or in a "
                                                    "circle, one receives first)"));
  });
}

absl::Status Communicator::Receive(void* data, int64_t count, DType dtype, int peer, Placement placement) {
  return GuardPair("receive from", peer, received_, [&]() -> absl::Status {
    DISTILL_RETURN_IF_ERROR(CheckBuffers(data, data, count, 1, dtype, placement));
    return count == 0 ? absl::OkStatus() : DoReceive(data, count, dtype, peer, placement);
  });
}

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Split(int color, int key) {
  const int64_t mine[] = {color, key};
  std::vector<int64_t> all(2 * static_cast<size_t>(world_size_));
  DISTILL_RETURN_IF_ERROR(AllGather(mine, all.data(), 2, DType::kInt64));
  std::vector<std::pair<int64_t, int>> order;
  for (int r = 0; color >= 0 && r < world_size_; ++r) {
    const size_t at = 2 * static_cast<size_t>(r);
    if (all[at] == color) order.emplace_back(all[at + 1], r);
  }
  std::sort(order.begin(), order.end());
  SplitPart part = {color, key, 0, {}};
  for (const auto& [unused, member] : order) {
    if (member == rank_) part.rank = static_cast<int>(part.members.size());
    part.members.push_back(member);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> made = DoSplit(part);
  DISTILL_RETURN_IF_ERROR(Agree(*this, Annotate(made.status(), "splitting the communicator")));
  return made;
}

absl::StatusOr<std::unique_ptr<CommMemory>> Communicator::Allocate(int64_t bytes, Placement placement) {
  if (bytes <= 0) return absl::InvalidArgumentError(absl::StrCat("an allocation of ", bytes, " bytes"));
  DISTILL_RETURN_IF_ERROR(CheckPlacement(placement));
  absl::StatusOr<std::unique_ptr<CommMemory>> memory = absl::UnknownError("not tried");
  DISTILL_RETURN_IF_ERROR(Guard({.operation = "allocate", .count = bytes}, [&] {
    memory = DoAllocate(bytes, placement);
    return absl::IsResourceExhausted(memory.status()) ? absl::OkStatus() : memory.status();
  }));
  // The memory of a rank is mapped by the others: they keep it while they hold theirs, so freeing needs no agreement.
  DISTILL_RETURN_IF_ERROR(Agree(*this, memory.status()));
  return memory;
}

absl::StatusOr<std::unique_ptr<CommMemory>> Communicator::DoAllocate(int64_t bytes, Placement) {
  return PlainMemory::Create(bytes);
}

absl::Status Communicator::Barrier() {
  return Guard({.operation = "barrier"}, [&] { return DoBarrier(); });
}

}  // namespace distill
