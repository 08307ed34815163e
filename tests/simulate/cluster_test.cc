// Collectives' real code in virtual time, beside the formulas that its essays give.
#include "libdistill/simulate/cluster.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/default_costs.h"
#include "libdistill/comm/tuning.h"
#include "libdistill/comm/tuning_file.h"
#include "libdistill/simulate/virtual_time.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// One rank a host, with one card, where a message costs a latency and its bytes, and nothing else takes time.
Cluster PlainHosts() {
  return {.name = "plain",
          .ranks_per_host = 1,
          .cards_per_host = 1,
          .card_gigabytes_per_second = 10,
          .inside_gigabytes_per_second = 1e15,
          .memory_gigabytes_per_second = 1e15,
          .latency_us = 20,
          .eager_bytes = int64_t{1} << 40};
}

double MicrosecondsOf(const Cluster& cluster, const SimulatedCall& call) {
  const absl::StatusOr<SimulatedTime> time = Simulate(cluster, call);
  INFO(time.status());
  REQUIRE(time.ok());
  return time->microseconds;
}

int64_t StepsOf(const Cluster& cluster, const SimulatedCall& call) {
  const absl::StatusOr<int64_t> steps = CountDependentSteps(cluster, call);
  INFO(steps.status());
  REQUIRE(steps.ok());
  return *steps;
}

TEST_CASE("fibers take the clock's time in the order of their events") {
  VirtualTime time;
  std::vector<int> order;
  VirtualTime::Fiber* waiting = nullptr;
  time.Spawn([&] {
    waiting = time.current();
    time.Wait();
    CHECK(time.now() == Microseconds(2));
    order.push_back(2);
  });
  time.Spawn([&] {
    time.Advance(Microseconds(1));
    order.push_back(1);
    time.Advance(Microseconds(1));
    time.Wake(waiting);
    time.Advance(Microseconds(3));
    order.push_back(3);
  });
  REQUIRE(time.Run().ok());
  CHECK(order == std::vector<int>{1, 2, 3});
  CHECK(time.now() == Microseconds(5));
}

TEST_CASE("fibers that nobody will wake are an error with their number") {
  VirtualTime time;
  time.Spawn([&] { time.Wait(); });
  const absl::Status status = time.Run();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(status.message().find("1 fibers wait for ever") == 0);
}

TEST_CASE("the ring all-reduce takes the time of its formula on 2 to 64 hosts") {
  const Cluster cluster = PlainHosts();
  for (const int hosts : {2, 3, 8, 64}) {
    const SimulatedCall call = {.hosts = hosts,
                                .bytes = hosts * (64 << 10),  // a chunk a step
                                .preference = AlgorithmPreference::kRing,
                                .flat = true};
    CAPTURE(hosts);
    CHECK(StepsOf(cluster, call) == 2 * (hosts - 1) + 1);  // the last message's acknowledgement
    const double step = cluster.latency_us + (64 << 10) / (cluster.card_gigabytes_per_second * 1e3);
    CHECK(MicrosecondsOf(cluster, call) == Approx(2 * (hosts - 1) * step + cluster.latency_us).epsilon(0.001));
  }
}

TEST_CASE("recursive doubling takes the time of its formula on 2 to 64 hosts") {
  const Cluster cluster = PlainHosts();
  for (const auto& [hosts, steps] : std::vector<std::pair<int, int>>{{2, 1}, {8, 3}, {64, 6}}) {
    const SimulatedCall call = {
        .hosts = hosts, .bytes = 8 << 10, .preference = AlgorithmPreference::kRecursiveDoubling, .flat = true};
    CAPTURE(hosts);
    CHECK(StepsOf(cluster, call) == steps + 1);
    const double step = cluster.latency_us + (8 << 10) / (cluster.card_gigabytes_per_second * 1e3);
    CHECK(MicrosecondsOf(cluster, call) == Approx(steps * step + cluster.latency_us).epsilon(0.05));
  }
}

TEST_CASE("a message takes the time of the slower one of its two cards") {
  Cluster cluster = PlainHosts();
  const SimulatedCall one_message = {
      .hosts = 2, .operation = CommOperation::kBroadcast, .bytes = 64 << 10, .flat = true};
  const double bytes = (64 << 10) / (cluster.card_gigabytes_per_second * 1e3);
  CHECK(MicrosecondsOf(cluster, one_message) == Approx(2 * cluster.latency_us + bytes).epsilon(0.001));
  for (const int slow : {0, 1}) {  // host 0 sends
    CAPTURE(slow);
    cluster.stragglers = {{.host = slow, .slower = 4}};
    CHECK(MicrosecondsOf(cluster, one_message) == Approx(2 * cluster.latency_us + 4 * bytes).epsilon(0.001));
  }
}

TEST_CASE("a call over the network costs two changes of threads, and one of several segments four at least") {
  Cluster cluster = PlainHosts();
  cluster.ranks_per_host = cluster.cards_per_host = 2;
  const auto added = [&](const SimulatedCall& call) {
    cluster.handover_us = 0;
    const double before = MicrosecondsOf(cluster, call);
    cluster.handover_us = 5;
    return MicrosecondsOf(cluster, call) - before;
  };
  CHECK(added({.hosts = 2, .bytes = 4 << 10, .flat = true}) == Approx(10));
  CHECK(added({.hosts = 2, .bytes = 4 << 10}) == Approx(10));
  // To the lane's thread and to the fabric's, and back both ways; the segments after the first find the lane's awake.
  const double segments = 4;
  CHECK(added({.hosts = 2, .bytes = 16 << 20}) >= 20);
  CHECK(added({.hosts = 2, .bytes = 16 << 20}) <= 10 + segments * 10 + 0.001);
}

// Broadcasts and reductions of more than 16 messages move credits, in memory that opening a communicator makes.
TEST_CASE("virtual ranks' communicators are open, and send from memory that there is") {
  for (const CommOperation operation : {CommOperation::kBroadcast, CommOperation::kReduce, CommOperation::kBarrier}) {
    CAPTURE(NameOf(operation));
    CHECK(MicrosecondsOf(PlainHosts(), {.hosts = 3, .operation = operation, .bytes = 64 << 20, .flat = true}) > 0);
  }
}

TEST_CASE("every operation ends in virtual time, in two levels and flat, and the same twice") {
  constexpr CommOperation kOperations[] = {CommOperation::kAllReduce, CommOperation::kReduceScatter,
                                           CommOperation::kAllGather, CommOperation::kBroadcast,
                                           CommOperation::kReduce,    CommOperation::kAllToAll};
  for (const Cluster& cluster : {P4d(), P5()}) {
    for (const bool flat : {false, true}) {
      for (const CommOperation operation : kOperations) {
        if (operation == CommOperation::kAllToAll && !flat) continue;  // never goes in two levels
        const SimulatedCall call = {.hosts = 3, .operation = operation, .bytes = 3 << 20, .flat = flat};
        CAPTURE(cluster.name, flat, NameOf(operation));
        const double first = MicrosecondsOf(cluster, call);
        CHECK(first > cluster.latency_us);
        CHECK(MicrosecondsOf(cluster, call) == first);
      }
    }
  }
}

TEST_CASE("a slow host holds all up, and a late one by as much as it is late") {
  const SimulatedCall call = {.hosts = 4, .bytes = 64 << 20};
  Cluster cluster = P5();
  const double before = MicrosecondsOf(cluster, call);
  cluster.stragglers = {{.host = 2, .late_us = 500}};
  CHECK(MicrosecondsOf(cluster, call) == Approx(before + 500).epsilon(0.05));
  cluster.stragglers = {{.host = 2, .slower = 4}};
  CHECK(MicrosecondsOf(cluster, call) > 2 * before);
}

// What each algorithm would take, if it were asked for.
double BestOf(const Cluster& cluster, SimulatedCall call, std::string& name) {
  double best = std::numeric_limits<double>::infinity();
  for (const CommAlgorithm algorithm :
       {CommAlgorithm::kRecursiveDoubling, CommAlgorithm::kDirectExchange, CommAlgorithm::kRabenseifner,
        CommAlgorithm::kBinomialTree, CommAlgorithm::kBinaryTree, CommAlgorithm::kRing}) {
    // What nobody would take takes long to show: thousands of steps, or all data again in each.
    const bool hopeless = (algorithm == CommAlgorithm::kRing && call.hosts > 8 && !HasRoot(call.operation)) ||
                          (algorithm == CommAlgorithm::kRecursiveDoubling && call.bytes > 8 << 20);
    if (hopeless || !CanRun(algorithm, call.operation, {call.hosts, call.hosts, 1})) continue;
    call.preference = PreferenceFor(algorithm);
    const double time = MicrosecondsOf(cluster, call);
    if (time >= best) continue;
    best = time;
    name = NameOf(algorithm);
  }
  return best;
}

TEST_CASE("what the table of costs chooses on 2 to 512 hosts is hardly slower than the best of all algorithms") {
  for (const Cluster& cluster : {P4d(), P5()}) {
    for (const int hosts : {2, 8, 64, 256, 512}) {
      for (const int64_t bytes : {4 << 10, 1 << 20, 8 << 20, 64 << 20}) {
        if (hosts > 64 && bytes > 8 << 20) continue;
        const SimulatedCall call = {.hosts = hosts, .bytes = bytes};
        std::string name;
        const double best = BestOf(cluster, call, name);
        CAPTURE(cluster.name, hosts, bytes, best, name);
        CHECK(MicrosecondsOf(cluster, call) <= 1.2 * best);
      }
    }
  }
}

TEST_CASE("a broadcast and a reduce on 2 to 512 hosts take hardly longer than by the best of trees and chain") {
  for (const Cluster& cluster : {P4d(), P5()}) {
    for (const CommOperation operation : {CommOperation::kBroadcast, CommOperation::kReduce}) {
      for (const int hosts : {2, 3, 5, 6, 8, 12, 64, 512}) {
        for (const int64_t bytes : {4 << 10, 1 << 20, 8 << 20, 64 << 20}) {
          if (hosts > 64 && bytes > 8 << 20) continue;
          const SimulatedCall call = {.hosts = hosts, .operation = operation, .bytes = bytes};
          std::string name;
          const double best = BestOf(cluster, call, name);
          CAPTURE(cluster.name, NameOf(operation), hosts, bytes, best, name);
          // On 5 of P5's hosts 64 MiB are segments at a border: each by itself costs the same by chain and tree, but in
          // a row they are quicker by the chain.
          const double most = hosts == 5 ? 1.25 : 1.2;
          CHECK(MicrosecondsOf(cluster, call) <= most * best);
        }
      }
    }
  }
}

// A lane by itself: one rank a host, with its share of the cards.
Cluster LaneOf(Cluster cluster) {
  const int ranks = std::exchange(cluster.ranks_per_host, 1);
  const int cards = std::max(1, cluster.cards_per_host / ranks);
  cluster.card_gigabytes_per_second *= static_cast<double>(cluster.cards_per_host) / (ranks * cards);
  cluster.cards_per_host = cards;
  return cluster;
}

TEST_CASE("of direct exchange and the ring, a lane's reduce-scatter and all-gather take one that is hardly slower") {
  for (const Cluster& cluster : {LaneOf(P4d()), LaneOf(P5())}) {
    for (const CommOperation operation : {CommOperation::kReduceScatter, CommOperation::kAllGather}) {
      for (const int hosts : {8, 64, 256, 512}) {
        for (const int64_t bytes : {4 << 10, 1 << 20, 8 << 20, 64 << 20}) {
          if (hosts > 256 && bytes > 8 << 20) continue;
          SimulatedCall call = {.hosts = hosts, .operation = operation, .bytes = bytes, .flat = true};
          const double chosen = MicrosecondsOf(cluster, call);
          call.preference = PreferenceFor(CommAlgorithm::kDirectExchange);
          const double direct = MicrosecondsOf(cluster, call);
          call.preference = PreferenceFor(CommAlgorithm::kRing);
          // Of many hosts a ring's latencies alone are more than all that direct exchange takes.
          const double latencies = (hosts - 1) * cluster.latency_us;
          const double ring = latencies > direct ? latencies : MicrosecondsOf(cluster, call);
          CAPTURE(cluster.name, NameOf(operation), hosts, bytes, direct, ring);
          CHECK(chosen <= 1.2 * std::min(direct, ring));
        }
      }
    }
  }
}

TEST_CASE("the tables of costs for P4d and P5 are those of their simulated clusters") {
  for (const auto& [cluster, name] : {std::pair(P4d(), "p4d"), std::pair(P5(), "p5")}) {
    absl::StatusOr<CostTable> table = ReadTuningFile(absl::StrCat(DISTILL_TABLES, "/", name, ".yaml"));
    INFO(table.status());
    REQUIRE(table.ok());
    CostTable expected = cluster.Costs();
    const std::vector<CostField> found = FieldsOf(*table), wanted = FieldsOf(expected);
    for (size_t i = 0; i < wanted.size(); ++i) {
      CAPTURE(name, wanted[i].link, wanted[i].name);
      CHECK(*found[i].value == Approx(*wanted[i].value).epsilon(0.001));
    }
    // Built in as well, for ranks that find such cards.
    const double share = cluster.host_gigabytes_per_second() / cluster.ranks_per_host;
    CHECK(DefaultCostsOf({"efa", share, /*on_device=*/true}).table == *table);
  }
}

TEST_CASE("the steps that follow one another hardly grow with the hosts") {
  for (const auto& [hosts, most] : std::vector<std::pair<int, int>>{{2, 4}, {8, 6}, {64, 9}, {512, 20}}) {
    for (const int64_t bytes : {4 << 10, 8 << 20}) {
      CAPTURE(hosts, bytes);
      CHECK(StepsOf(P5(), {.hosts = hosts, .bytes = bytes}) <= most);
    }
  }
}

TEST_CASE("a short broadcast and a short reduce take log2(hosts) steps on 2 to 512 hosts, the chain all hosts") {
  for (const CommOperation operation : {CommOperation::kBroadcast, CommOperation::kReduce}) {
    for (int rounds = 1; rounds <= 9; ++rounds) {
      SimulatedCall call = {.hosts = 1 << rounds, .operation = operation, .bytes = 4 << 10};
      CAPTURE(NameOf(operation), call.hosts);
      CHECK(StepsOf(P5(), call) == rounds + 1);  // the last message's acknowledgement
      CHECK(StepsOf(P4d(), call) == rounds + 1);
      call.preference = AlgorithmPreference::kRing;
      CHECK(StepsOf(P5(), call) == call.hosts);
    }
    for (const int hosts : {3, 5, 17, 100, 500}) {
      int rounds = 0;
      while (1 << rounds < hosts) ++rounds;
      CAPTURE(NameOf(operation), hosts);
      CHECK(StepsOf(P5(), {.hosts = hosts, .operation = operation, .bytes = 4 << 10}) <= rounds + 1);
    }
  }
}

// A ring has 512 steps, and takes 8 to 10 ms of latencies alone.
TEST_CASE("on 512 hosts a lane's reduce-scatter and all-gather are two steps, and a tenth of a ring's time") {
  for (const Cluster& cluster : {LaneOf(P4d()), LaneOf(P5())}) {
    for (const CommOperation operation : {CommOperation::kReduceScatter, CommOperation::kAllGather}) {
      for (const int64_t bytes : {4 << 10, 1 << 20, 8 << 20}) {
        const SimulatedCall call = {.hosts = 512, .operation = operation, .bytes = bytes, .flat = true};
        CAPTURE(cluster.name, NameOf(operation), bytes);
        CHECK(StepsOf(cluster, call) == 2);
        CHECK(MicrosecondsOf(cluster, call) < 0.1 * 511 * cluster.latency_us + bytes / 6.25e3);
      }
    }
  }
}

TEST_CASE("on 64 hosts every half of an all-reduce is two steps") {
  for (const CommOperation operation : {CommOperation::kReduceScatter, CommOperation::kAllGather}) {
    CAPTURE(NameOf(operation));
    CHECK(StepsOf(P5(), {.hosts = 64, .operation = operation, .bytes = 8 << 20}) == 2);
  }
}

// A ring over segments of 4 MiB, which is what was there, gives an all-reduce 0.03 of P5's cards and 0.1 of P4d's.
// A chain of all hosts gives a broadcast 0.025 and a reduce 0.018 of P5's cards, 0.16 and 0.15 of P4d's.
TEST_CASE("on 64 hosts operations use the cards as far as latencies and the way inside a host let them") {
  struct Floor {
    CommOperation operation;
    int64_t bytes;
    double p4d, p5;  // shares of the network
  };
  constexpr Floor kFloors[] = {
      {CommOperation::kAllReduce, 64 << 20, 0.85, 0.45},    {CommOperation::kAllReduce, 256 << 20, 0.92, 0.62},
      {CommOperation::kReduceScatter, 64 << 20, 0.7, 0.32}, {CommOperation::kAllGather, 64 << 20, 0.7, 0.32},
      {CommOperation::kBroadcast, 64 << 20, 0.38, 0.17},    {CommOperation::kReduce, 64 << 20, 0.37, 0.12}};
  for (const Floor& floor : kFloors) {
    for (const auto& [cluster, least] : {std::pair(P4d(), floor.p4d), std::pair(P5(), floor.p5)}) {
      CAPTURE(cluster.name, NameOf(floor.operation), floor.bytes);
      const absl::StatusOr<SimulatedTime> time =
          Simulate(cluster, {.hosts = 64, .operation = floor.operation, .bytes = floor.bytes});
      REQUIRE(time.ok());
      CHECK(time->share_of_network >= least);
    }
  }
}

TEST_CASE("a cluster that cannot be is refused") {
  Cluster cluster = P5();
  CHECK(Simulate(cluster, {.hosts = 0, .bytes = 4}).status().message() ==
        "0 hosts of 8 ranks: a simulated call needs two ranks");
  cluster.cards_per_host = 3;
  CHECK(Simulate(cluster, {.hosts = 2, .bytes = 4}).status().message() ==
        "3 cards for 8 ranks a host: give a divisor or a multiple");
}

}  // namespace
}  // namespace distill
