#include "libdistill/comm/tuning.h"

#include "absl/strings/str_cat.h"
#include "libdistill/comm/default_costs.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

constexpr CommOperation kOperations[] = {CommOperation::kAllReduce, CommOperation::kReduceScatter,
                                         CommOperation::kAllGather, CommOperation::kBroadcast, CommOperation::kReduce};

std::vector<CommLayout> Layouts() {
  std::vector<CommLayout> layouts;
  for (const int hosts : {1, 2, 3, 4, 5, 8, 12, 32, 512}) {
    for (const int per_host : {1, 2, 8}) {
      if (hosts * per_host > 1) layouts.push_back({hosts * per_host, hosts, per_host});
    }
  }
  return layouts;
}

TEST_CASE("short calls take the fewest messages, long ones the fewest bytes") {
  const CommTuning tuning;
  for (const int ranks : {4, 5, 8, 16}) {
    const CommLayout layout = {ranks, ranks, 1};
    CAPTURE(ranks);
    const CommAlgorithm shortest = tuning.Choose(CommOperation::kAllReduce, 4, layout);
    for (const auto& [name, preference] : NamesOf(AlgorithmPreference())) {
      CAPTURE(name);
      const CommTuning forced({}, preference);
      const CommAlgorithm other = forced.Choose(CommOperation::kAllReduce, 4, layout);
      CHECK(PredictMicroseconds(shortest, CommOperation::kAllReduce, 4, layout, {}) <=
            PredictMicroseconds(other, CommOperation::kAllReduce, 4, layout, {}));
    }
    const CommAlgorithm longest = tuning.Choose(CommOperation::kAllReduce, int64_t{1} << 40, layout);
    CHECK(longest != CommAlgorithm::kRecursiveDoubling);
  }
}

void CheckMovesOn(const CommTuning& tuning, CommOperation operation, const CommLayout& layout, bool flat_only) {
  std::vector<CommAlgorithm> seen;
  double before = 0;
  for (int64_t bytes = 4; bytes <= int64_t{1} << 36; bytes *= 2) {
    const CommAlgorithm chosen = tuning.Choose(operation, bytes, layout, flat_only);
    const double time = PredictMicroseconds(chosen, operation, bytes, layout, tuning.table());
    CHECK(time >= before);  // the wire hides the gaps of short messages
    before = time;
    if (!seen.empty() && seen.back() == chosen) continue;
    CAPTURE(NameOf(operation), layout.ranks, layout.hosts, bytes, NameOf(chosen), tuning.table().Encode());
    CHECK(std::find(seen.begin(), seen.end(), chosen) == seen.end());
    CHECK(CanRun(chosen, operation, layout));
    seen.push_back(chosen);
  }
}

TEST_CASE("as calls grow the choice moves on and never comes back, by every built-in table") {
  for (const std::string provider : {"tcp", "shm", "efa"}) {
    for (const double share : {6.25, 50.0}) {
      for (const bool on_device : {false, true}) {
        const CommTuning tuning(DefaultCostsOf({provider, share, on_device}).table, AlgorithmPreference::kAuto);
        for (const CommOperation operation : kOperations) {
          for (const CommLayout& layout : Layouts()) {
            CheckMovesOn(tuning, operation, layout, /*flat_only=*/true);
            // Device memory goes in two levels, whatever its table says.
            if (!on_device) CheckMovesOn(tuning, operation, layout, /*flat_only=*/false);
          }
        }
      }
    }
  }
}

TEST_CASE("every rank comes to the same choice from what rank 0 sent") {
  const CostTable table = {{0.1, 1.0 / 3, 7.7}, {19.3, 2.0 / 7, 1.1}, 12.3};
  const CommTuning here(table, AlgorithmPreference::kAuto);
  const absl::StatusOr<CostTable> sent = CostTable::Decode(table.Encode());
  REQUIRE(sent.ok());
  CHECK(*sent == table);
  const CommTuning there(*sent, AlgorithmPreference::kAuto);
  for (const CommLayout& layout : Layouts()) {
    for (int64_t bytes = 1; bytes < 100'000'000; bytes = bytes * 3 + 1) {
      CHECK(here.Choose(CommOperation::kAllReduce, bytes, layout) ==
            there.Choose(CommOperation::kAllReduce, bytes, layout));
    }
  }
}

TEST_CASE("a preference is taken wherever it can be carried out") {
  const CommLayout one_host = {4, 1, 4}, two_hosts = {4, 2, 2};
  for (const CommAlgorithm algorithm :
       {CommAlgorithm::kRing, CommAlgorithm::kRecursiveDoubling, CommAlgorithm::kRabenseifner,
        CommAlgorithm::kDirectExchange, CommAlgorithm::kHierarchical}) {
    CAPTURE(NameOf(algorithm));
    const CommTuning forced({}, PreferenceFor(algorithm));
    for (const int64_t bytes : {1, 1 << 20}) {
      CHECK(forced.Choose(CommOperation::kAllReduce, bytes, two_hosts) == algorithm);
      CHECK(forced.Choose(CommOperation::kAllReduce, bytes, two_hosts, true) != CommAlgorithm::kHierarchical);
    }
  }
  CHECK(CommTuning({}, AlgorithmPreference::kHierarchical).Choose(CommOperation::kAllReduce, 8, one_host) !=
        CommAlgorithm::kHierarchical);
  CHECK(CommTuning({}, AlgorithmPreference::kFlat).Choose(CommOperation::kAllReduce, 1 << 24, {32, 4, 8}) !=
        CommAlgorithm::kHierarchical);
  CHECK(CommTuning().Choose(CommOperation::kAllReduce, 1 << 24, {32, 4, 8}) == CommAlgorithm::kHierarchical);
  CHECK(CommTuning({}, AlgorithmPreference::kRecursiveDoubling)
            .Choose(CommOperation::kAllGather, 1 << 24, two_hosts, true) != CommAlgorithm::kRecursiveDoubling);
  CHECK(CommTuning({}, AlgorithmPreference::kDirectExchange).Choose(CommOperation::kAllReduce, 8, {1000, 1000, 1}) !=
        CommAlgorithm::kDirectExchange);
}

TEST_CASE("whether a call goes in two levels follows from table, layout and size, or from a preference") {
  const CommLayout layout = {4, 2, 2};
  const auto levels = [&](const CommTuning& tuning, int64_t bytes) {
    return tuning.TakesLevels(CommOperation::kAllReduce, bytes, layout);
  };
  for (int64_t bytes = 4; bytes <= 1 << 30; bytes *= 4) CHECK(levels(CommTuning(), bytes));
  // Memory that is slower than the network: short calls save messages in two levels, long ones bytes without.
  CostTable slow_memory;
  slow_memory.shared_memory.gigabytes_per_second = 0.5;
  CHECK(levels({slow_memory, AlgorithmPreference::kAuto}, 1 << 10));
  CHECK(!levels({slow_memory, AlgorithmPreference::kAuto}, 1 << 24));
  CHECK(levels({slow_memory, AlgorithmPreference::kHierarchical}, 1 << 24));
  CHECK(levels({slow_memory, AlgorithmPreference::kRing}, 1 << 24));
  CHECK(!levels({CostTable(), AlgorithmPreference::kFlat}, 4));
  CHECK(CommTuning(slow_memory, AlgorithmPreference::kAuto)
            .Describe(CommOperation::kAllReduce, layout)
            .find("hierarchical up to ") == 0);
  CHECK(!CommTuning().TakesLevels(CommOperation::kAllReduce, 4, {4, 4, 1}));
}

TEST_CASE("a ring that alternates between hosts costs their links as many times the bytes") {
  const CommLayout in_order = LayoutOf(HostLayout({"A", "A", "B", "B"}));
  const CommLayout alternating = LayoutOf(HostLayout({"A", "B", "A", "B"}));
  CHECK(in_order.crossings == 1);
  CHECK(alternating.crossings == 2);
  CHECK(LayoutOf(HostLayout({"A", "A"})).crossings == 1);
  const auto time = [](const CommLayout& layout) {
    return PredictMicroseconds(CommAlgorithm::kRing, CommOperation::kAllReduce, 1 << 26, layout, {});
  };
  CHECK(time(alternating) > 1.5 * time(in_order));
}

TEST_CASE("the default table takes every algorithm somewhere: Rabenseifner's between many hosts") {
  const CommTuning tuning;
  const auto chosen = [&](int hosts, int64_t bytes) {
    return tuning.Choose(CommOperation::kAllReduce, bytes, {hosts, hosts, 1});
  };
  CHECK(chosen(32, 16 << 10) == CommAlgorithm::kRecursiveDoubling);
  CHECK(chosen(128, 64 << 10) == CommAlgorithm::kRabenseifner);
  CHECK(chosen(32, 512 << 10) == CommAlgorithm::kDirectExchange);
  CHECK(chosen(32, 64 << 20) == CommAlgorithm::kRing);
  CHECK(chosen(512, 1 << 20) == CommAlgorithm::kRabenseifner);  // more than direct exchange has room for
}

TEST_CASE("a broadcast and a reduce take a tree between many hosts, and the chain for long data between few") {
  const CommTuning tuning;
  for (const CommOperation operation : {CommOperation::kBroadcast, CommOperation::kReduce}) {
    const auto chosen = [&](int hosts, int64_t bytes) { return tuning.Choose(operation, bytes, {hosts, hosts, 1}); };
    CAPTURE(NameOf(operation));
    CHECK(chosen(2, 4) == CommAlgorithm::kRing);
    CHECK(chosen(3, 4) != CommAlgorithm::kRing);  // both trees are one
    for (const int hosts : {4, 5, 6, 12}) CHECK(chosen(hosts, 4) == CommAlgorithm::kBinomialTree);
    CHECK(chosen(4, 64 << 20) == CommAlgorithm::kRing);
    CHECK(chosen(512, 4) == CommAlgorithm::kBinomialTree);
    CHECK(chosen(512, 4 << 20) == CommAlgorithm::kBinaryTree);
    CHECK(chosen(512, int64_t{4} << 30) == CommAlgorithm::kRing);
    CHECK(CommTuning({}, AlgorithmPreference::kRing).Choose(operation, 4, {512, 512, 1}) == CommAlgorithm::kRing);
    CHECK(CommTuning({}, AlgorithmPreference::kDirectExchange).Choose(operation, 4, {512, 512, 1}) ==
          CommAlgorithm::kBinomialTree);
  }
  CHECK(!CanRun(CommAlgorithm::kBinomialTree, CommOperation::kAllReduce, {8, 8, 1}));
}

TEST_CASE("a faster network moves the border between the algorithms up") {
  const auto border = [](double gigabytes_per_second) {
    CostTable table;
    table.network.gigabytes_per_second = gigabytes_per_second;
    int64_t bytes = 4;
    const CommTuning tuning(table, AlgorithmPreference::kAuto);
    while (tuning.Choose(CommOperation::kAllReduce, bytes, {4, 4, 1}) == CommAlgorithm::kRecursiveDoubling) bytes += 64;
    return bytes;
  };
  CHECK(border(0.12) < border(1.2));
  CHECK(border(1.2) < border(12));
}

TEST_CASE("the description names each algorithm up to where it is taken") {
  const CommLayout layout = {4, 4, 1};
  CHECK(CommTuning({}, AlgorithmPreference::kRing).Describe(CommOperation::kAllReduce, layout) == "ring");
  const std::string text = CommTuning().Describe(CommOperation::kAllReduce, layout);
  INFO(text);
  CHECK(text.find("recursive_doubling up to ") == 0);
  CHECK(text.find(" above") == text.size() - 6);
}

TEST_CASE("the built-in table of costs follows from the provider, the part of the cards and the kind of memory") {
  const auto name = [](const std::string& provider, double gigabytes_per_second, bool on_device) {
    return DefaultCostsOf({provider, gigabytes_per_second, on_device}).name;
  };
  CHECK(name("efa", 4 * 12.5 / 8, true) == "efa as on P4d");  // P4d: 4 cards for 8 ranks
  CHECK(name("efa", 32 * 12.5 / 8, true) == "efa as on P5");  // P5
  CHECK(name("efa", 16 * 25.0 / 8, true) == "efa as on P5");  // P5en
  CHECK(name("efa", 12.5, true) == "efa as on P4d");          // a card of 100 Gbit/s for a rank
  CHECK(name("efa", 0, true) == "efa as on P4d");
  CHECK(name("efa", 6.25, false) == "efa as on P4d, host memory");
  CHECK(name("efa", 50, false) == "efa as on P5, host memory");
  CHECK(name("tcp;ofi_rxm", 0, false) == "tcp");
  CHECK(name("tcp;ofi_rxm", 12.5, false) == "tcp");
  CHECK(name("shm", 0, false) == "shm");
  CHECK(name("verbs;ofi_rxm", 25, false) == "tcp");
  CHECK(DefaultCostsOf({"tcp;ofi_rxm", 0, false}).table == CostTable());
}

TEST_CASE("every built-in table is one that a file could hold, and two levels win under it") {
  for (const std::string provider : {"efa", "tcp;ofi_rxm", "shm"}) {
    for (const double share : {6.25, 50.0}) {
      for (const bool on_device : {false, true}) {
        const CostTable table = DefaultCostsOf({provider, share, on_device}).table;
        CAPTURE(provider, share, on_device);
        CHECK(CheckTable(table).ok());
        CHECK(*CostTable::Decode(table.Encode()) == table);
        const CommTuning tuning(table, AlgorithmPreference::kAuto);
        for (const int hosts : {2, 8, 64, 512}) {
          for (int64_t bytes = 4; bytes <= 1 << 30; bytes *= 4) {
            CHECK(tuning.TakesLevels(CommOperation::kAllReduce, bytes, {8 * hosts, hosts, 8}));
          }
        }
      }
    }
  }
}

TEST_CASE("a table that was given is kept, and one that was not is the fabric's") {
  const CostTable given = {{1, 1, 1}, {1, 1, 1}, 1}, built_in = DefaultCostsOf({"efa", 50, true}).table;
  CommTuning from_user(given, AlgorithmPreference::kAuto), from_nobody(AlgorithmPreference::kRing);
  for (CommTuning* tuning : {&from_user, &from_nobody}) tuning->UseWhereNoneWasGiven(built_in, "efa as on P5");
  CHECK(from_user.table() == given);
  CHECK(from_user.was_given());
  CHECK(from_nobody.table() == built_in);
  CHECK(from_nobody.source() == "efa as on P5");
  CHECK(from_nobody.preference() == AlgorithmPreference::kRing);
  // P5's cards are 40 times as fast as tcp: few steps are worth more than few bytes up to longer data.
  const auto border = [](const CommTuning& tuning) {
    int64_t bytes = 4;
    const CommLayout layout = {4, 4, 1};
    while (tuning.Choose(CommOperation::kAllReduce, bytes, layout) == CommAlgorithm::kRecursiveDoubling) bytes *= 2;
    return bytes;
  };
  CHECK(border(CommTuning(built_in, AlgorithmPreference::kAuto)) > border(CommTuning()));
}

TEST_CASE("a damaged table is refused, with what is wrong") {
  const auto refusal = [](const std::string& text) {
    const absl::Status status = CostTable::Decode(text).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK(refusal("") == "not a table of costs: ''");
  CHECK(refusal("1 2 3 4 5 6") == "not a table of costs: '1 2 3 4 5 6'");
  CHECK(refusal("1 2 3 4 5 6 x") == "not a table of costs: '1 2 3 4 5 6 x'");
  CHECK(refusal("1 2 3 4 5 6 7 8").find("not a table") == 0);
  CHECK(refusal("1 1 0 1 1 1 1") == "shared_memory: gigabytes_per_second must be above 0 and finite, not 0");
  CHECK(refusal("1 1 1 -1 1 1 1") == "network: latency_us must be at least 0 and finite, not -1");
  CHECK(refusal("1 1 1 1 nan 1 1") == "network: gap_us must be at least 0 and finite, not nan");
  CHECK(refusal("1 1 1 1 1 1 inf") == "reduction_gigabytes_per_second must be above 0 and finite, not inf");
}

}  // namespace
}  // namespace distill
