// How calls in two levels are cut on few hosts and on many.
#include "libdistill/comm/lane_cut.h"

#include "tests/support/catch.h"

namespace distill {
namespace {

constexpr int kLanes = 8;

int64_t SegmentBytes(int64_t bytes, int hosts) {
  const LaneCut cut(bytes / 4, kLanes, 4, hosts);
  return cut.per_segment / kLanes * 4;
}

TEST_CASE("up to four hosts segments of a lane are of 512 KiB to 4 MiB, four at least") {
  for (const int hosts : {2, 3, 4}) {
    CAPTURE(hosts);
    CHECK(SegmentBytes(1 << 20, hosts) == 512 << 10);
    CHECK(SegmentBytes(64 << 20, hosts) == 2 << 20);
    CHECK(SegmentBytes(1 << 30, hosts) == 4 << 20);
  }
}

TEST_CASE("between many hosts a step's message is 64 KiB at least, and a segment 64 MiB at most") {
  for (const int hosts : {16, 64, 512}) {
    CAPTURE(hosts);
    for (const int64_t bytes : {1 << 20, 64 << 20, 1 << 30}) {
      CHECK(SegmentBytes(bytes, hosts) / hosts >= 64 << 10);
      CHECK(SegmentBytes(bytes, hosts) <= 64 << 20);
    }
  }
  CHECK(SegmentBytes(int64_t{16} << 30, 64) == 64 << 20);
}

TEST_CASE("what a short call keeps for a piece is no longer than the call, on however many hosts") {
  for (const int hosts : {2, 64, 512}) {
    CAPTURE(hosts);
    CHECK(LaneCut(1, kLanes, 4, hosts).longest_piece_bytes() == 4);
    CHECK(LaneCut(1000, kLanes, 4, hosts).longest_piece_bytes() == 4000);  // one lane takes all
    CHECK(LaneCut(80'000, kLanes, 4, hosts).longest_piece_bytes() == 40'000 + (kLanes - 1) * 4);
  }
}

TEST_CASE("all elements are in one piece of one segment") {
  for (const int64_t count : {int64_t{1}, int64_t{8191}, int64_t{8193}, int64_t{10'000'019}})
    for (const int hosts : {2, 64}) {
      const LaneCut cut(count, kLanes, 4, hosts);
      int64_t next = 0;
      for (int64_t segment = 0; segment < cut.segments; ++segment) {
        for (int lane = 0; lane < cut.lanes; ++lane) {
          CHECK(cut.PieceBegin(segment, lane) == next);
          CHECK(cut.PieceLength(segment, lane) * cut.size <= cut.longest_piece_bytes());
          next += cut.PieceLength(segment, lane);
        }
      }
      CHECK(next == cut.count);
    }
}

}  // namespace
}  // namespace distill
