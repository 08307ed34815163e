// How the data of a hierarchical call are cut: into segments that follow each other through the levels, and each
// segment into one piece a lane. A pure function of what is the same on every rank. Internal to comm/.
#pragma once

#include <algorithm>
#include <cstdint>

namespace distill {

// Segments of one lane: long enough that the wire hardly pauses between two, short enough that what the first and the
// last one do inside the host is little beside the whole.
constexpr int64_t kLaneSegmentBytes = 4 << 20;
// A call is cut into so many segments, if they get no shorter than this.
constexpr int64_t kFewestSegments = 4;
constexpr int64_t kShortestLaneSegmentBytes = 512 << 10;
// A step between many hosts moves a share of a segment, one of so many as there are hosts: segments grow with the
// hosts, so that such a message's bytes take as long as its latency at least, up to what a rank's two slots may take.
constexpr int64_t kShortestStepBytes = 64 << 10;
constexpr int64_t kLongestStepBytes = 1 << 20;
constexpr int64_t kMostLaneSegmentBytes = 64 << 20;
// Up to here one lane takes all: what counts is how often ranks wait for each other, and one wait is saved.
constexpr int64_t kOneLaneBytes = 32 << 10;

struct LaneCut {
  LaneCut(int64_t count, int lanes, int64_t element_bytes, int hosts)
      : count(count), size(element_bytes), lanes(count * element_bytes <= kOneLaneBytes ? 1 : lanes) {
    const int64_t bytes = (count * size + this->lanes - 1) / this->lanes;
    const auto at_least = [&](int64_t step, int64_t least) {
      return std::clamp<int64_t>(hosts * step, least, kMostLaneSegmentBytes);
    };
    const int64_t wanted = std::clamp(bytes / kFewestSegments, at_least(kShortestStepBytes, kShortestLaneSegmentBytes),
                                      at_least(kLongestStepBytes, kLaneSegmentBytes));
    per_segment = std::max<int64_t>(1, wanted / size) * this->lanes;
    segments = (count + per_segment - 1) / per_segment;
  }
  int64_t Begin(int64_t segment) const { return segment * per_segment; }
  int64_t Length(int64_t segment) const { return std::min(per_segment, count - Begin(segment)); }
  // All pieces of a segment are this long; the last lane's has the rest as well.
  int64_t Even(int64_t segment) const { return Length(segment) / lanes; }
  int64_t Rest(int64_t segment) const { return Length(segment) % lanes; }
  int64_t PieceBegin(int64_t segment, int lane) const { return Begin(segment) + lane * Even(segment); }
  int64_t PieceLength(int64_t segment, int lane) const {
    return Even(segment) + (lane + 1 == lanes ? Rest(segment) : 0);
  }
  int64_t longest_piece_bytes() const {
    const int64_t longest = std::min(per_segment, count);  // of a segment: a short call is less than a whole one
    return std::min(longest, longest / lanes + lanes - 1) * size;
  }

  int64_t count, size;
  int lanes;
  int64_t per_segment = 1;
  int64_t segments = 1;
};

// What a lane sends to one host at a time in a reduce-scatter or an all-gather of long blocks: on many hosts a step of
// the ring is a message of this length, and not of a share of kLaneSegmentBytes, so that the wire's bandwidth counts
// and not its latency.
constexpr int64_t kBlockMessageBytes = 1 << 20;
// But a lane's segment, of which there are two slots (on a GPU four), is no longer than this: from 64 hosts on the
// messages get shorter.
constexpr int64_t kLongestBlockSegmentBytes = 64 << 20;

// The same for a block of `count` elements a rank: a segment is a part of every block, of which a lane carries `seats`
// for each host.
struct BlockCut {
  BlockCut(int64_t count, int64_t hosts, int64_t seats, int64_t element_bytes) : count(count) {
    const int64_t message =
        std::max(kLaneSegmentBytes / hosts, std::min(kBlockMessageBytes, kLongestBlockSegmentBytes / hosts));
    per_segment = std::clamp<int64_t>(message / element_bytes / seats, 1, count);
    segments = (count + per_segment - 1) / per_segment;
  }
  int64_t Begin(int64_t segment) const { return segment * per_segment; }
  int64_t Length(int64_t segment) const { return std::min(per_segment, count - Begin(segment)); }

  int64_t count;
  int64_t per_segment = 1;
  int64_t segments = 1;
};

}  // namespace distill
