#include "libdistill/comm/shm_pairs.h"

#include <algorithm>
#include <atomic>

#include "libdistill/comm/reduce.h"
#include "libdistill/comm/same_calls.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr int64_t kPiece = static_cast<int64_t>(ShmGroup::kPieceBytes);

}  // namespace

struct ShmPairs::Line {
  std::atomic<uint64_t> posted;
  std::atomic<uint64_t> taken;
  MessageHeader header;  // of the message being posted
};

ShmPairs::Line& ShmPairs::line(int owner, int peer) const {
  static_assert(sizeof(Line) <= ShmGroup::kPairLineBytes);
  return *reinterpret_cast<Line*>(group_.pair_line(owner, peer));
}

absl::Status ShmPairs::Send(const CommCall& call, const Deadline& deadline) {
  const int peer = call.peer;
  Line& mine = line(group_.rank(), peer);
  const Line& theirs = line(peer, group_.rank());
  const int64_t bytes = call.bytes();
  const uint64_t before = mine.posted.load(std::memory_order_relaxed);
  uint64_t posted = before;
  const auto taken_up_to = [&](uint64_t piece) {
    return group_.WaitUntil(
        peer, [&] { return theirs.taken.load(std::memory_order_acquire) >= piece; }, deadline);
  };
  mine.header = MessageHeader::Of(call);
  for (int64_t begin = 0; begin < bytes; begin += kPiece) {
    if (posted - before >= 2) DISTILL_RETURN_IF_ERROR(taken_up_to(posted - 1));
    CopyBytes(group_.piece(group_.rank(), static_cast<int64_t>(posted - before)), call.in() + begin,
              std::min(kPiece, bytes - begin));
    mine.posted.store(++posted, std::memory_order_release);
  }
  return taken_up_to(posted);
}

absl::Status ShmPairs::Receive(const CommCall& call, const Deadline& deadline) {
  const int peer = call.peer;
  Line& mine = line(group_.rank(), peer);
  const Line& theirs = line(peer, group_.rank());
  const int64_t bytes = call.bytes();
  const uint64_t before = mine.taken.load(std::memory_order_relaxed);
  uint64_t taken = before;
  for (int64_t begin = 0; begin < bytes; begin += kPiece) {
    DISTILL_RETURN_IF_ERROR(group_.WaitUntil(
        peer, [&] { return theirs.posted.load(std::memory_order_acquire) > taken; }, deadline));
    if (begin == 0) {
      DISTILL_RETURN_IF_ERROR(
          CompareMessages(theirs.header, group_.NameOf(peer), MessageHeader::Of(call), group_.NameOf(group_.rank())));
    }
    CopyBytes(call.out() + begin, group_.piece(peer, static_cast<int64_t>(taken - before)),
              std::min(kPiece, bytes - begin));
    mine.taken.store(++taken, std::memory_order_release);
  }
  return absl::OkStatus();
}

}  // namespace distill
