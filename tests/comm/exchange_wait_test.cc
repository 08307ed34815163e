// How lists of messages and the ring wait: what for, and whom they name.
#include <utility>
#include <vector>

#include "libdistill/comm/exchange_tree.h"
#include "libdistill/comm/ring.h"
#include "libdistill/core/status_macros.h"
#include "tests/support/catch.h"
#include "tests/support/quiet_endpoint.h"

namespace distill {
namespace {

constexpr int64_t kMessages = 3 * FabricCredits::kEvery;

// A peer that sends as far as credits let it, and a provider that refuses the first credits that go back.
class RefusingEndpoint : public testing::QuietEndpoint {
 public:
  absl::StatusOr<bool> Send(int, uint64_t, const void*, size_t, const FabricMemory&,
                            FabricOperation* operation) override {
    if (refusals-- > 0) return false;
    operation->done = true;
    credited = true;
    for (FabricOperation* held : std::exchange(held_, {})) held->done = true;
    return true;
  }
  absl::StatusOr<bool> Receive(int, uint64_t tag, void*, size_t, const FabricMemory&,
                               FabricOperation* operation) override {
    operation->done = credited || tag < 2 * FabricCredits::kEvery;
    if (!operation->done) held_.push_back(operation);
    return true;
  }
  int refusals = 20;  // more than there are looks while messages come
  bool credited = false;

 private:
  std::vector<FabricOperation*> held_;
};

TEST_CASE("credits say whether the provider refused them") {
  RefusingEndpoint endpoint;
  endpoint.refusals = 1;
  FabricCredits credits(&endpoint, /*rank=*/0);
  char bytes[FabricCredits::kBytes] = {};
  const FabricMemory memory;
  credits.Use(bytes, &memory);
  const auto step = [&] {
    const absl::StatusOr<CreditStep> done = credits.Send(1, FabricCredits::kAll);
    REQUIRE(done.ok());
    return *done;
  };
  CHECK(!step().refused);  // none is due
  credits.NoteTaken(1, FabricCredits::kEvery);
  const CreditStep refused = step(), taken = step();
  CHECK((refused.refused && !refused.moved));
  CHECK((taken.moved && !taken.refused));
}

// To sleep would be to wait for the sender, which waits for the credit.
TEST_CASE("a rank whose provider refuses a credit tries again, and does not sleep until something comes") {
  for (const bool along_ring : {false, true}) {
    CAPTURE(along_ring);
    RefusingEndpoint endpoint;
    FabricCredits credits(&endpoint, /*rank=*/0);
    std::vector<char> data(kMessages), bytes(FabricCredits::kBytes);
    const FabricMemory memory;
    credits.Use(bytes.data(), &memory);
    const auto incoming = [&](int64_t m) { return RingPiece{&data[static_cast<size_t>(m)], 1, &memory}; };
    absl::Status status;
    if (along_ring) {
      const RingSchedule schedule = {
          .next = 1, .previous = 1, .incoming = kMessages, .reuse = kMessages, .credits = &credits};
      status = Ring(&endpoint).Run(
          schedule, incoming, incoming, [](int64_t) {}, [](const RingSchedule&, bool) { return absl::OkStatus(); });
    } else {
      const ExchangeTree leaf = {.parent = 1, .place = 0, .children = {}};
      const ExchangePlan plan = PlanTreeBroadcast({.rank = 0, .ranks = 2, .count = kMessages, .chunk = 1}, leaf);
      const Exchange::Region region = {data.data(), &memory};
      BufferWork work(nullptr);
      status = Exchange(&endpoint, &work)
                   .Run(plan, {region, region, region, DType::kUInt8, ReduceOp::kSum, 2, /*tag=*/0, &credits},
                        [](int, bool) { return absl::OkStatus(); });
    }
    CHECK(status.ok());
    CHECK(endpoint.credited);
    CHECK(endpoint.limits.empty());
  }
}

// One neighbour is late: it neither sends nor receives.
class LateEndpoint : public testing::QuietEndpoint {
 public:
  explicit LateEndpoint(int late) : late_(late) {}
  absl::StatusOr<bool> Send(int peer, uint64_t, const void*, size_t, const FabricMemory&,
                            FabricOperation* operation) override {
    operation->done = peer != late_;
    return true;
  }
  absl::StatusOr<bool> Receive(int peer, uint64_t, void*, size_t, const FabricMemory&,
                               FabricOperation* operation) override {
    operation->done = peer != late_;
    return true;
  }

 private:
  const int late_;
};

// The first rank that a call along a tree of 7 ranks names while it waits, and whether for data from it.
std::pair<int, bool> NamedBy(const ExchangeTree& tree, bool reduces, int late) {
  constexpr int64_t kCount = 100;  // chunks, which is far more than a rank keeps
  LateEndpoint endpoint(late);
  const ExchangeShape shape = {.rank = 1, .ranks = 7, .count = kCount, .chunk = 1};
  const ExchangePlan plan = (reduces ? PlanTreeReduce : PlanTreeBroadcast)(shape, tree);
  std::vector<char> data(kCount), result(kCount), landing(static_cast<size_t>(plan.landing));
  const FabricMemory memory;
  BufferWork work(nullptr);
  const Exchange::Call call = {.input = {data.data(), &memory},
                               .result = {result.data(), &memory},
                               .landing = {landing.data(), &memory},
                               .dtype = DType::kUInt8};
  std::pair<int, bool> named = {-1, false};
  const absl::Status status = Exchange(&endpoint, &work).Run(plan, call, [&](int peer, bool receiving) {
    named = {peer, receiving};
    return absl::DeadlineExceededError("late");
  });
  CHECK(absl::IsDeadlineExceeded(status));
  return named;
}

TEST_CASE("a rank of a tree waits for the neighbour that is late, not for one whose data have come") {
  const std::pair<const char*, ExchangeTree> trees[] = {{"binomial", BinomialTree(2, 7, 0)},
                                                        {"binary", BinaryTree(1, 7, 0)}};
  for (const auto& [name, tree] : trees) {
    CAPTURE(name);
    REQUIRE(tree.parent == 0);
    REQUIRE(!tree.children.empty());
    CHECK(NamedBy(tree, /*reduces=*/true, tree.parent) == std::pair(tree.parent, false));
    CHECK(NamedBy(tree, /*reduces=*/false, tree.parent) == std::pair(tree.parent, true));
    for (const int child : tree.children) {
      CHECK(NamedBy(tree, /*reduces=*/true, child) == std::pair(child, true));
      CHECK(NamedBy(tree, /*reduces=*/false, child) == std::pair(child, false));
    }
  }
}

}  // namespace
}  // namespace distill
