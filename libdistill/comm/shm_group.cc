#include "libdistill/comm/shm_group.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libdistill/comm/same_calls.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/backoff.h"

namespace distill {
namespace {

constexpr size_t kHeaderBytes = 4096;
constexpr size_t kMaxReason = 1024;
constexpr size_t kSlots = 4;
// How long the ranks count as more than the cores, once a wait has shown it.
constexpr int kCrowdedWaits = 1000;
constexpr int kFewYields = 16;

}  // namespace

struct alignas(64) ShmGroup::Flag {
  std::atomic<uint64_t> step;  // polled by all
  ShmCall call;                // written before the step
};

struct ShmGroup::Header {
  Flag flags[2];
  // How many rounds this rank has copied in, and reduced, in calls that work ahead.
  alignas(64) std::atomic<uint64_t> copied;
  alignas(64) std::atomic<uint64_t> reduced;
  alignas(64) std::atomic<uint32_t> state;
  absl::StatusCode code;  // this and the reason are written before state becomes kFailed
  char reason[kMaxReason];
};

size_t ShmGroup::SegmentBytes(int ranks) {
  return kHeaderBytes + kSlots * kSlotBytes + 2 * kPieceBytes + static_cast<size_t>(ranks) * kPairLineBytes;
}

char* ShmGroup::piece(int rank, int64_t number) const {
  return segments_[static_cast<size_t>(rank)] + kHeaderBytes + kSlots * kSlotBytes +
         static_cast<size_t>(number % 2) * kPieceBytes;
}

char* ShmGroup::pair_line(int rank, int peer) const {
  return piece(rank, 0) + 2 * kPieceBytes + static_cast<size_t>(peer) * kPairLineBytes;
}

ShmGroup::ShmGroup(int rank, std::vector<char*> segments, std::vector<ProcessWatch> watches,
                   std::vector<std::string> names)
    : rank_(rank), segments_(std::move(segments)), watches_(std::move(watches)), names_(std::move(names)) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  static_assert(sizeof(Flag) == 64, "a flag is one cache line");
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
}

ShmGroup::Header& ShmGroup::header(int rank) const {
  return *reinterpret_cast<Header*>(segments_[static_cast<size_t>(rank)]);
}

char* ShmGroup::slot(int rank, uint64_t round) const {
  return segments_[static_cast<size_t>(rank)] + kHeaderBytes + (round % kSlots) * kSlotBytes;
}

void ShmGroup::PublishCopied(uint64_t round) { header(rank_).copied.store(round + 1, std::memory_order_release); }

void ShmGroup::PublishReduced(uint64_t round) { header(rank_).reduced.store(round + 1, std::memory_order_release); }

absl::Status ShmGroup::WaitForCopied(uint64_t round, const Deadline& deadline) const {
  for (int rank = 0; rank < size(); ++rank) {
    DISTILL_RETURN_IF_ERROR(WaitForCount(rank, header(rank).copied, round + 1, deadline));
  }
  return absl::OkStatus();
}

absl::Status ShmGroup::WaitForReduced(int rank, uint64_t round, const Deadline& deadline) const {
  return WaitForCount(rank, header(rank).reduced, round + 1, deadline);
}

ShmGroup::Flag& ShmGroup::flag(int rank) const { return header(rank).flags[step_ % 2]; }

void ShmGroup::Publish(const ShmCall& call) {
  call_ = call;
  Publish();
}

void ShmGroup::Publish() {
  ++step_;
  Flag& mine = flag(rank_);
  mine.call = call_;
  mine.step.store(step_, std::memory_order_release);
}

const ShmCall& ShmGroup::CallOf(int rank) const { return flag(rank).call; }

absl::Status ShmGroup::WaitFor(int rank, const Deadline& deadline) const {
  return WaitForCount(rank, flag(rank).step, step_, deadline);
}

absl::Status ShmGroup::WaitForCount(int rank, const std::atomic<uint64_t>& counter, uint64_t count,
                                    const Deadline& deadline) const {
  return WaitUntil(
      rank, [&] { return counter.load(std::memory_order_acquire) >= count; }, deadline);
}

absl::Status ShmGroup::WaitUntil(int rank, absl::FunctionRef<bool()> ready, const Deadline& deadline) const {
  Backoff backoff(crowded_ > 0 ? Backoff::kShortSpin : Backoff::kLongSpin);
  for (; !ready(); backoff.Pause()) {
    // Looking at the other's process is a system call: not while this rank only spins.
    if (!backoff.slow() || (backoff.yields() == 0 && !deadline.Passed())) continue;
    const absl::Status state = Look(rank);
    // What the rank published before it went counts.
    if (ready()) break;
    DISTILL_RETURN_IF_ERROR(state);
    if (deadline.Passed()) return deadline.Error(absl::StrCat("waiting for ", NameOf(rank)));
  }
  // Who comes as soon as this core is given away was waiting for it.
  const bool crowded = backoff.core_was_wanted() && backoff.yields() < kFewYields;
  crowded_ = crowded ? kCrowdedWaits : std::max(crowded_ - 1, 0);
  return absl::OkStatus();
}

absl::Status ShmGroup::WaitForAll(const Deadline& deadline) const {
  for (int rank = 0; rank < size(); ++rank) DISTILL_RETURN_IF_ERROR(WaitFor(rank, deadline));
  return absl::OkStatus();
}

absl::Status ShmGroup::WaitForSameCall(const Deadline& deadline) const {
  DISTILL_RETURN_IF_ERROR(WaitForAll(deadline));
  const RankCall mine = {rank_, NameOf(rank_), call_.signature};
  for (int rank = 0; rank < size(); ++rank) {
    DISTILL_RETURN_IF_ERROR(CompareCalls(mine, {rank, NameOf(rank), CallOf(rank).signature}));
  }
  return absl::OkStatus();
}

absl::Status ShmGroup::Look() const {
  for (int rank = 0; rank < size(); ++rank) DISTILL_RETURN_IF_ERROR(Look(rank));
  return absl::OkStatus();
}

absl::Status ShmGroup::Look(int rank) const {
  const std::string& name = NameOf(rank);
  const Header& theirs = header(rank);
  switch (theirs.state.load(std::memory_order_acquire)) {
    case kLeft:
      return absl::UnavailableError(absl::StrCat(name, " has left the job"));
    case kFailed:
      return absl::Status(
          theirs.code,
          absl::StrCat(name, " gave up: ", absl::string_view(theirs.reason, strnlen(theirs.reason, kMaxReason))));
    default:
      break;
  }
  const ProcessWatch& watch = watches_[static_cast<size_t>(rank)];
  if (watch.Alive()) {
    return rendezvous_ != nullptr && rendezvous_->failed() ? rendezvous_->CheckPeers() : absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(name, " was lost: its process ", watch.pid(), " has ended"));
}

void ShmGroup::Leave() {
  uint32_t running = kRunning;  // who failed stays failed
  header(rank_).state.compare_exchange_strong(running, kLeft, std::memory_order_release);
}

void ShmGroup::Fail(const absl::Status& error) {
  Header& mine = header(rank_);
  mine.code = error.code();
  std::memcpy(mine.reason, error.message().data(), std::min(error.message().size(), kMaxReason));
  mine.state.store(kFailed, std::memory_order_release);
}

}  // namespace distill
