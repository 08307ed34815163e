// Direct exchange between more ranks than the tests of real processes have.
#include <algorithm>

#include "libdistill/comm/fabric_scratch.h"
#include "libdistill/comm/tuning.h"
#include "tests/comm/exchange_runs.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

using testing::ExchangeRun;
using testing::RunAll;
using testing::ValueOf;

TEST_CASE("direct exchange scatters and gathers right between 257, 300 and 512 ranks") {
  for (const int ranks : {257, 300, 512}) {
    const int64_t block = ranks == 300 ? 3 : 1;  // of two chunks, or of one
    const int64_t all = block * ranks;
    CAPTURE(ranks);
    std::vector<ExchangeRun> scatter(static_cast<size_t>(ranks)), gather(scatter.size());
    for (int rank = 0; rank < ranks; ++rank) {
      const ExchangeShape shape = {rank, ranks, all, /*chunk=*/2, /*in_place=*/false};
      ExchangeRun& one = scatter[static_cast<size_t>(rank)];
      one.Begin(PlanDirectReduceScatter(shape), all, block);
      for (int64_t i = 0; i < all; ++i) one.memory[ExchangeBuffer::kInput][static_cast<size_t>(i)] = ValueOf(rank, i);
      ExchangeRun& other = gather[static_cast<size_t>(rank)];
      other.Begin(PlanDirectAllGather(shape), all, all);
      for (int64_t i = 0; i < block; ++i) {
        other.memory[ExchangeBuffer::kResult][static_cast<size_t>(rank * block + i)] = ValueOf(rank, i);
      }
    }
    REQUIRE(RunAll(scatter));
    REQUIRE(RunAll(gather));
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<int64_t> sums, gathered;
      for (int64_t i = rank * block; i < (rank + 1) * block; ++i) {
        int64_t sum = 0;
        for (int from = 0; from < ranks; ++from) sum += ValueOf(from, i);
        sums.push_back(sum / ranks);
      }
      for (int64_t i = 0; i < all; ++i) gathered.push_back(ValueOf(static_cast<int>(i / block), i % block));
      REQUIRE(scatter[static_cast<size_t>(rank)].memory[ExchangeBuffer::kResult] == sums);
      REQUIRE(gather[static_cast<size_t>(rank)].memory[ExchangeBuffer::kResult] == gathered);
    }
  }
}

TEST_CASE("a direct reduce-scatter between up to 512 ranks lands in 9 MB, on a device in 65 MiB") {
  for (int ranks = 2; ranks <= 512; ++ranks) {
    const CommLayout layout = {ranks, ranks, 1};
    REQUIRE(CanRun(CommAlgorithm::kDirectExchange, CommOperation::kReduceScatter, layout));
    REQUIRE(CanRun(CommAlgorithm::kDirectExchange, CommOperation::kAllGather, layout));
    for (const bool on_device : {false, true}) {
      const int64_t chunk = DirectChunkBytes(ranks, on_device);
      const ExchangePlan plan = PlanDirectReduceScatter({0, ranks, ranks * 4 * chunk, chunk, false});
      CAPTURE(ranks, on_device, chunk);
      REQUIRE(plan.landing <= (on_device ? int64_t{65} << 20 : 9'000'000));  // of bytes
    }
  }
  CHECK(!CanRun(CommAlgorithm::kDirectExchange, CommOperation::kReduceScatter, {513, 513, 1}));
  CHECK(!CanRun(CommAlgorithm::kDirectExchange, CommOperation::kAllReduce, {257, 257, 1}));
}

}  // namespace
}  // namespace distill
