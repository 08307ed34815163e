#include "libdistill/comm/shm_pairs.h"

#include <algorithm>
#include <atomic>

#include "libdistill/comm/pair_header.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr int64_t kPiece = static_cast<int64_t>(ShmGroup::kPieceBytes);

}  // namespace

struct ShmPairs::Line {
  std::atomic<uint64_t> posted;
  std::atomic<uint64_t> taken;
  PairHeader header;  // of the message being posted
};

ShmPairs::Line& ShmPairs::line(int owner, int peer) const {
  static_assert(sizeof(Line) <= ShmGroup::kPairLineBytes);
  return *reinterpret_cast<Line*>(group_.pair_line(owner, peer));
}

absl::Status ShmPairs::Send(int peer, const void* data, int64_t count, DType dtype, const Deadline& deadline) {
  Line& mine = line(group_.rank(), peer);
  const Line& theirs = line(peer, group_.rank());
  const int64_t bytes = count * SizeOf(dtype);
  const uint64_t before = mine.posted.load(std::memory_order_relaxed);
  uint64_t posted = before;
  const auto taken_up_to = [&](uint64_t piece) {
    return group_.WaitUntil(
        peer, [&] { return theirs.taken.load(std::memory_order_acquire) >= piece; }, deadline);
  };
  mine.header = {count, static_cast<int64_t>(dtype)};
  for (int64_t begin = 0; begin < bytes; begin += kPiece) {
    if (posted - before >= 2) DISTILL_RETURN_IF_ERROR(taken_up_to(posted - 1));
    CopyBytes(group_.piece(group_.rank(), static_cast<int64_t>(posted - before)),
              static_cast<const char*>(data) + begin, std::min(kPiece, bytes - begin));
    mine.posted.store(++posted, std::memory_order_release);
  }
  return taken_up_to(posted);
}

absl::Status ShmPairs::Receive(int peer, void* data, int64_t count, DType dtype, const Deadline& deadline) {
  Line& mine = line(group_.rank(), peer);
  const Line& theirs = line(peer, group_.rank());
  const int64_t bytes = count * SizeOf(dtype);
  const uint64_t before = mine.taken.load(std::memory_order_relaxed);
  uint64_t taken = before;
  for (int64_t begin = 0; begin < bytes; begin += kPiece) {
    DISTILL_RETURN_IF_ERROR(group_.WaitUntil(
        peer, [&] { return theirs.posted.load(std::memory_order_acquire) > taken; }, deadline));
    if (begin == 0) {
      const PairHeader expected = {count, static_cast<int64_t>(dtype)};
      DISTILL_RETURN_IF_ERROR(Compare(theirs.header, group_.NameOf(peer), expected, group_.NameOf(group_.rank())));
    }
    CopyBytes(static_cast<char*>(data) + begin, group_.piece(peer, static_cast<int64_t>(taken - before)),
              std::min(kPiece, bytes - begin));
    mine.taken.store(++taken, std::memory_order_release);
  }
  return absl::OkStatus();
}

}  // namespace distill
