#include "libdistill/comm/backend.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/comm/host_memory.h"
#include "libdistill/comm/plain_memory.h"
#include "libdistill/comm/same_calls.h"
#include "libdistill/comm/setup.h"
#include "libdistill/core/status_macros.h"

namespace distill {

CommBackend::CommBackend(const Setup& setup)
    : Communicator(setup.world.rank, setup.Names()),
      host_(setup.hosts[static_cast<size_t>(setup.world.rank)]),
      host_id_(setup.host_ids[static_cast<size_t>(setup.world.rank)]),
      memory_root_(setup.memory_root) {}

absl::Status CommBackend::Attach(std::shared_ptr<Rendezvous> rendezvous, absl::Duration timeout, absl::Duration grace) {
  const absl::Status attached = lifeline_.Attach(std::move(rendezvous), timeout, grace,
                                                 [this](const CommCall& call) { return DescribeCall(call, "on"); });
  if (!attached.ok()) Poison(Annotate(attached, Describe(rank())));
  return poison_;
}

void CommBackend::Poison(const absl::Status& error) {
  poison_ = error;
  lifeline_.Announce(poison_);
  Abandon(poison_);
}

void CommBackend::EndPart(const absl::Status& error) {
  if (!poison_.ok()) return;
  poison_ = error;
  Abandon(poison_);
}

std::string CommBackend::DescribeCall(const CommCall& call, const char* where) const {
  if (call.number == 0) return Describe(rank());
  const std::string whom = IsPair(call.operation) ? absl::StrCat(" rank ", call.peer) : "";
  return absl::StrCat(NameOf(call.operation), whom, " number ", call.number, " over ", backend(), " ", where, " ",
                      Describe(rank()), " of ", world_size(), " ranks",
                      error_context_ ? absl::StrCat(" (", error_context_(), ")") : "");
}

int64_t CommBackend::NextNumber(const CommCall& call) {
  if (!IsPair(call.operation)) return ++sequence_;
  if (!HasPeer(call.peer)) return 1;
  std::vector<int64_t>& numbers = call.operation == CommOperation::kSend ? sent_ : received_;
  return ++numbers[static_cast<size_t>(call.peer)];
}

absl::Status CommBackend::Guard(CommCall call, absl::FunctionRef<absl::Status()> body) {
  if (!poison_.ok()) return poison_;
  const bool collective = !IsPair(call.operation);
  call.number = NextNumber(call);
  lifeline_.Enter(call, is_part_);
  const auto compared = [&]() -> absl::Status {
    if (compares_calls_ && collective && world_size() > 1) DISTILL_RETURN_IF_ERROR(CompareWithPeers(call));
    return body();
  };
  absl::Status status = lifeline_.broken() ? lifeline_.Check() : OnCallThread(compared);
  if (absl::IsDeadlineExceeded(status) && collective && !is_part_ && asks_who_is_late()) {
    status = lifeline_.FindLate(call.number, status);
  }
  if (absl::IsDeadlineExceeded(status) && !is_part_) status = lifeline_.NameOverdue(status);
  if (!status.ok()) Poison(is_part_ ? status : Annotate(status, DescribeCall(call, "failed on")));
  lifeline_.Leave();
  return poison_;
}

absl::Status CommBackend::Run(const CommCall& call) {
  return Guard(call, [&]() -> absl::Status {
    DISTILL_RETURN_IF_ERROR(CheckArguments(call));
    if (call.count == 0 && call.operation != CommOperation::kBarrier) return absl::OkStatus();
    const absl::Status status = Execute(call);
    if (call.operation != CommOperation::kSend || !absl::IsDeadlineExceeded(status) || is_part_) return status;
    return absl::DeadlineExceededError(absl::StrCat(status.message(), ": ", Describe(call.peer),
                                                    " did not receive (of ranks that send to each other, or in a "
                                                    "circle, one receives first)"));
  });
}

// The debug mode: ranks that are about to make different calls all learn so, and do not wait for one another in vain or
// take one another's bytes for something else. The exchange itself is the same call on every rank.
absl::Status CommBackend::CompareWithPeers(const CommCall& mine) {
  const ShownCall shown = ShownCall::Of(mine, error_context_ ? error_context_() : "");
  std::vector<ShownCall> all(static_cast<size_t>(world_size()));
  DISTILL_RETURN_IF_ERROR(Execute({.operation = CommOperation::kAllGather,
                                   .input = &shown,
                                   .output = all.data(),
                                   .count = sizeof(ShownCall),
                                   .dtype = DType::kUInt8}));
  return CompareCalls(*this, all);
}

absl::Status CommBackend::CheckArguments(const CommCall& call) const {
  if (IsPair(call.operation) && !HasPeer(call.peer)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", call.peer, " in a world of ", world_size(), " is no other rank than this one"));
  }
  if (HasRoot(call.operation) && (call.root < 0 || call.root >= world_size())) {
    return absl::InvalidArgumentError(absl::StrCat("root ", call.root, " in a world of ", world_size()));
  }
  return call.operation == CommOperation::kBarrier ? absl::OkStatus() : CheckBuffers(call);
}

absl::Status CommBackend::CheckBuffers(const CommCall& call) const {
  if (call.count < 0) return absl::InvalidArgumentError(absl::StrCat("a count of ", call.count, " elements"));
  const int blocks = call.blocks(world_size());
  if (call.count > std::numeric_limits<int64_t>::max() / blocks / SizeOf(call.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(call.count, " elements are more bytes than 63 bits count"));
  }
  const bool reads = call.operation != CommOperation::kReceive;
  const bool writes =
      call.operation != CommOperation::kSend && (call.operation != CommOperation::kReduce || call.root == rank());
  if (call.count > 0 && ((reads && call.input == nullptr) || (writes && call.output == nullptr))) {
    return absl::InvalidArgumentError("a null buffer");
  }
  if (call.operation == CommOperation::kAllToAll) {
    const auto from = reinterpret_cast<uintptr_t>(call.input);
    const auto to = reinterpret_cast<uintptr_t>(call.output);
    const auto bytes = static_cast<uintptr_t>(blocks * call.bytes());
    if (from < to + bytes && to < from + bytes) return absl::InvalidArgumentError("the two buffers overlap");
  }
  return CheckPlacement(call.placement);
}

absl::Status CommBackend::CheckPlacement(Placement placement) const {
  if (!placement.on_device || takes_device_memory()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("buffers in device memory, which ", backend(), " does not take: stage them through host memory"));
}

absl::StatusOr<std::unique_ptr<Communicator>> CommBackend::Split(int color, int key) {
  const int64_t mine[] = {color, key};
  std::vector<int64_t> all(2 * static_cast<size_t>(world_size()));
  DISTILL_RETURN_IF_ERROR(AllGather(mine, all.data(), 2, DType::kInt64));
  std::vector<std::pair<int64_t, int>> order;
  for (int r = 0; color >= 0 && r < world_size(); ++r) {
    const size_t at = 2 * static_cast<size_t>(r);
    if (all[at] == color) order.emplace_back(all[at + 1], r);
  }
  std::sort(order.begin(), order.end());
  SplitPart part = {color, key, {}};
  for (const auto& [unused, member] : order) part.members.push_back(member);
  absl::StatusOr<std::unique_ptr<Communicator>> made = DoSplit(part);
  DISTILL_RETURN_IF_ERROR(Agree(*this, Annotate(made.status(), "splitting the communicator")));
  return made;
}

absl::StatusOr<std::unique_ptr<CommMemory>> CommBackend::Allocate(int64_t bytes, Placement placement) {
  if (bytes <= 0) return absl::InvalidArgumentError(absl::StrCat("an allocation of ", bytes, " bytes"));
  DISTILL_RETURN_IF_ERROR(CheckPlacement(placement));
  absl::StatusOr<std::unique_ptr<CommMemory>> memory = absl::UnknownError("not tried");
  DISTILL_RETURN_IF_ERROR(Guard({.operation = CommOperation::kAllocate, .count = bytes}, [&] {
    memory = AllocateInCall(bytes, placement);
    return absl::IsResourceExhausted(memory.status()) ? absl::OkStatus() : memory.status();
  }));
  // The memory of a rank is mapped by the others: they keep it while they hold theirs, so freeing needs no agreement.
  DISTILL_RETURN_IF_ERROR(Agree(*this, memory.status()));
  return memory;
}

// The whole has checked what its parts allocate; memory of a GPU is its rank's alone.
absl::StatusOr<std::unique_ptr<CommMemory>> CommBackend::AllocateInCall(int64_t bytes, Placement placement) {
  if (is_part_ || placement.on_device) return DoAllocate(bytes, placement);
  DISTILL_RETURN_IF_ERROR(CheckMemoryOfHosts(bytes));
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<CommMemory> memory, DoAllocate(bytes, placement));
  DISTILL_RETURN_IF_ERROR(TakePages(*memory));
  return memory;
}

// Every rank has read what is left before any of them goes on to take some of it.
absl::Status CommBackend::CheckMemoryOfHosts(int64_t bytes) {
  if (host_id_.empty() && world_size() > 1) return absl::OkStatus();  // around another one, which checks
  const MemoryRequest mine = {host_, bytes, ReadMemoryLimits(memory_root_)};
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> texts, GatherInCall(mine.Encode()));
  std::vector<MemoryRequest> requests(texts.size());
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    DISTILL_ASSIGN_OR_RETURN(requests[rank], MemoryRequest::Decode(texts[rank]));
  }
  return CheckHostMemory(requests);
}

absl::StatusOr<std::vector<std::string>> CommBackend::GatherInCall(const std::string& mine) {
  return GatherTextsBy(world_size(), mine, [this](const void* in, void* out, int64_t count, DType dtype) {
    if (count == 0) return absl::OkStatus();
    return Execute(
        {.operation = CommOperation::kAllGather, .input = in, .output = out, .count = count, .dtype = dtype});
  });
}

absl::StatusOr<std::unique_ptr<CommMemory>> CommBackend::DoAllocate(int64_t bytes, Placement) {
  return PlainMemory::Create(bytes);
}

}  // namespace distill
