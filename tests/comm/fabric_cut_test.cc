// In which order a reduce-scatter over the fabric sends its chunks.
#include "libdistill/comm/fabric_cut.h"

#include <map>
#include <utility>

#include "tests/support/catch.h"

namespace distill {
namespace {

TEST_CASE("a reduce-scatter's groups are a window long at least, over however many rails, and bound its partial sums") {
  for (const int rails : {1, 2, 4, 5, 8, 32}) {
    const int64_t window = RingWindow(rails), most = ReduceScatterOrder::MostChunks(window);
    CAPTURE(rails, window);
    CHECK(most <= 2 * RingWindow(32));
    for (int64_t chunks = 1; chunks < 200; ++chunks) {
      const ReduceScatterOrder order(/*ranks=*/4, chunks, window);
      CAPTURE(chunks);
      CHECK(order.group <= most);
      CHECK((order.groups == 1 || order.group >= window));
    }
  }
  CHECK(ReduceScatterOrder::MostChunks(RingWindow(4)) == 16);
  CHECK(ReduceScatterOrder::MostChunks(RingWindow(8)) == 32);
}

TEST_CASE("each chunk goes through all steps once, a group of messages apart") {
  for (const int64_t window : {4, 16}) {
    const ReduceScatterOrder order(/*ranks=*/5, /*chunks=*/77, window);
    CAPTURE(window);
    std::map<std::pair<int64_t, int64_t>, int64_t> at;  // the message of a chunk and a step
    for (int64_t m = 0; m < order.rounds() * order.group; ++m) {
      REQUIRE(at.emplace(std::pair(order.Chunk(m), order.Step(m)), m).second);
    }
    for (int64_t chunk = 0; chunk < 77; ++chunk) {
      for (int64_t step = 1; step < 4; ++step) {
        REQUIRE(at.at({chunk, step}) - at.at({chunk, step - 1}) == order.group);
      }
    }
  }
}

}  // namespace
}  // namespace distill
