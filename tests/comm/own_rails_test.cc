// How many endpoints a rank opens on hosts with many network cards, and when: libfabric says here that its provider efa
// has eight of them, all of which are loopback in truth, and all of which want registered buffers, as efa's do.
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/backend.h"
#include "libdistill/comm/create.h"
#include "libdistill/comm/default_costs.h"
#include "libdistill/comm/tuning_file.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/collectives_grid.h"
#include "tests/comm/load_fabric.h"
#include "tests/comm/watch_fabric.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::Expect;
using testing::ExpectError;
using testing::ExpectWithin;
using testing::Failures;
using testing::RunRanks;
using testing::WatchedFabric;

constexpr int kCards = 8;
int cards_here = kCards;
bool calls_itself_efa = false;  // also the endpoint that is open
enum class Asked { kAnswers, kFails, kKills };
std::atomic<Asked> asked{Asked::kAnswers};  // what happens to a rank that asks for its cards
std::atomic<int> endpoints{0}, closed_endpoints{0}, registrations{0};

void Rename(fi_info& info, const std::string& name) {
  free(info.domain_attr->name);
  info.domain_attr->name = strdup(name.c_str());
}

int GetInfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** found) {
  const FabricLibrary& real = WatchedFabric::real;
  if (asked == Asked::kFails) return -FI_ENOMEM;
  if (asked == Asked::kKills) kill(getpid(), SIGKILL);
  if (std::strcmp(hints->fabric_attr->prov_name, "efa") != 0) {
    return real.getinfo(version, node, service, flags, hints, found);
  }
  fi_info* of_tcp = real.dupinfo(hints);
  free(of_tcp->fabric_attr->prov_name);
  of_tcp->fabric_attr->prov_name = strdup("tcp;ofi_rxm");
  fi_info* loopback = nullptr;
  const int rc = real.getinfo(version, node, service, flags, of_tcp, &loopback);
  real.freeinfo(of_tcp);
  if (rc != 0) return rc;
  loopback->domain_attr->mr_mode |= FI_MR_LOCAL;
  for (int card = cards_here - 1; card >= 0; --card) {
    fi_info* info = real.dupinfo(loopback);
    Rename(*info, absl::StrCat("rdmap", card, "s0"));
    info->next = *found;
    *found = info;
  }
  real.freeinfo(loopback);
  return 0;
}

fi_ops_mr mr_ops, real_mr_ops;
int Register(fid* domain, const fi_mr_attr* attributes, uint64_t flags, fid_mr** region) {
  ++registrations;
  return real_mr_ops.regattr(domain, attributes, flags, region);
}

fi_ops endpoint_ops, real_endpoint_ops;
int CloseEndpoint(fid* endpoint) {
  ++closed_endpoints;
  return real_endpoint_ops.close(endpoint);
}

// In a process of a test's own: for good. Its cards' addresses are no IP addresses, as far as we see.
absl::Status WatchFabric() {
  testing::FabricWatch watch;
  watch.before_domain = [](fi_info& info) { Rename(info, "lo"); };
  watch.after_endpoint = [](fi_info& info) {
    info.addr_format = FI_ADDR_EFA;
    if (calls_itself_efa) std::strcpy(info.fabric_attr->prov_name, "efa");  // longer before
    ++endpoints;
  };
  watch.on_endpoint = [](fid_ep& endpoint) {
    real_endpoint_ops = endpoint_ops = *endpoint.fid.ops;
    endpoint_ops.close = &CloseEndpoint;
    endpoint.fid.ops = &endpoint_ops;
  };
  watch.on_domain = [](fid_domain& domain) {
    real_mr_ops = mr_ops = *domain.mr;
    mr_ops.regattr = &Register;
    domain.mr = &mr_ops;
  };
  return WatchedFabric::Watch(watch, &GetInfo);
}

// Sums, and what reduce-scatter and all-gather give, compared with exact ones.
absl::Status CheckSums(Communicator& comm, const std::vector<int64_t>& counts) {
  return testing::CheckAllReduces(comm, {.counts = counts, .dtypes = {DType::kFloat32}, .ops = {ReduceOp::kSum}});
}

absl::Status ExpectCount(const char* what, int count, int wanted) {
  return Expect(count == wanted, absl::StrCat(count, " ", what, ", and not ", wanted));
}

// Two ranks on each of two hosts.
absl::StatusOr<std::unique_ptr<Communicator>> JoinOnTwoHosts(World world) {
  setenv("FI_TCP_IFACE", "lo", 1);
  world.host = world.host_id = world.rank < 2 ? "host-a" : "host-b";
  CommunicatorOptions options;
  options.timeout = absl::Seconds(60);
  return CreateCommunicator(world, options);
}

// Each on a host of its own, around the ring.
absl::StatusOr<std::unique_ptr<Communicator>> JoinApart(World world) {
  setenv("FI_TCP_IFACE", "lo", 1);
  world.host = world.host_id = absl::StrCat("host-", world.rank);
  CommunicatorOptions options;
  options.algorithm = AlgorithmPreference::kRing;
  options.timeout = absl::Seconds(60);
  return CreateCommunicator(world, options);
}

// A float32 for each pair of ranks, `each` times.
absl::Status CheckAllToAll(Communicator& comm, float* in, float* out, int64_t each) {
  const int ranks = comm.world_size();
  for (int to = 0; to < ranks; ++to) {
    std::fill_n(in + to * each, each, static_cast<float>(10 * comm.rank() + to));
  }
  DISTILL_RETURN_IF_ERROR(comm.AllToAll(in, out, each, DType::kFloat32));
  for (int from = 0; from < ranks; ++from) {
    const float wanted = static_cast<float>(10 * from + comm.rank());
    for (int64_t i = 0; i < each; ++i) {
      if (out[from * each + i] != wanted) return absl::InternalError(absl::StrCat("wrong data of rank ", from));
    }
  }
  return absl::OkStatus();
}

// One number to the rank of the other host that has another local rank.
absl::Status CheckMessage(Communicator& comm) {
  const int peer = 3 - comm.rank();
  int64_t number = comm.rank();
  if (comm.rank() < 2) return comm.Send(&number, 1, DType::kInt64, peer);
  DISTILL_RETURN_IF_ERROR(comm.Receive(&number, 1, DType::kInt64, peer));
  return Expect(number == peer, "another rank's number");
}

absl::Status RunRank(const World& world) {
  constexpr int kOwn = kCards / 2;
  constexpr int64_t kEach = 100'000;
  DISTILL_RETURN_IF_ERROR(WatchFabric());
  DISTILL_ASSIGN_OR_RETURN(auto comm, JoinOnTwoHosts(world));
  DISTILL_RETURN_IF_ERROR(ExpectCount("endpoints at first", endpoints, kOwn + 1));
  DISTILL_ASSIGN_OR_RETURN(auto in, comm->Allocate(4 * kEach * 4));
  DISTILL_ASSIGN_OR_RETURN(auto out, comm->Allocate(4 * kEach * 4));
  DISTILL_ASSIGN_OR_RETURN(auto freed_before, comm->Allocate(1000));
  auto* from = reinterpret_cast<float*>(in->data());
  auto* to = reinterpret_cast<float*>(out->data());
  freed_before.reset();
  DISTILL_RETURN_IF_ERROR(comm->Barrier());
  DISTILL_RETURN_IF_ERROR(CheckSums(*comm, {10, kEach}));
  DISTILL_RETURN_IF_ERROR(CheckAllToAll(*comm, from, to, 1000));
  DISTILL_RETURN_IF_ERROR(CheckMessage(*comm));
  DISTILL_RETURN_IF_ERROR(ExpectCount("endpoints before a long all-to-all", endpoints, kOwn + 1));
  DISTILL_RETURN_IF_ERROR(CheckAllToAll(*comm, from, to, kEach));
  DISTILL_RETURN_IF_ERROR(ExpectCount("endpoints after a long all-to-all", endpoints, 2 * kOwn + 1));
  // What was allocated before is registered there, and so is what is allocated now: a call registers none of it.
  DISTILL_ASSIGN_OR_RETURN(auto later, comm->Allocate(4 * kEach * 4));
  const int before = registrations;
  DISTILL_RETURN_IF_ERROR(CheckAllToAll(*comm, from, to, kEach));
  DISTILL_RETURN_IF_ERROR(CheckAllToAll(*comm, reinterpret_cast<float*>(later->data()), to, kEach));
  DISTILL_RETURN_IF_ERROR(ExpectCount("registrations in calls", registrations - before, 0));
  in.reset();
  DISTILL_RETURN_IF_ERROR(CheckAllToAll(*comm, reinterpret_cast<float*>(later->data()), to, kEach));
  // A part with one rank of each host has that rank's cards, and no more.
  DISTILL_ASSIGN_OR_RETURN(auto part, comm->Split(world.rank % 2, world.rank));
  DISTILL_RETURN_IF_ERROR(part->Barrier());
  DISTILL_RETURN_IF_ERROR(ExpectCount("endpoints with those of a part", endpoints, 3 * kOwn + 1));
  comm.reset();
  out.reset();
  return absl::OkStatus();
}

TEST_CASE("a rank opens endpoints on its own cards, and between all ranks when a call first needs that",
          "[own_fabric]") {
  testing::LoadFabric();
  CHECK(Failures(RunRanks(4, absl::Seconds(100), &RunRank)) == "");
}

TEST_CASE("where one host has fewer cards than another, the ranks of both use as many", "[own_fabric]") {
  testing::LoadFabric();
  const auto outcomes = RunRanks(4, absl::Seconds(100), [](const World& world) -> absl::Status {
    // Of the five cards there rank 2 has two and rank 3 three: their lanes use as many, and what joins all ranks two.
    const int of_lane = world.rank % 2 == 0 ? 2 : 3;
    cards_here = world.rank < 2 ? 8 : 5;
    DISTILL_RETURN_IF_ERROR(WatchFabric());
    DISTILL_ASSIGN_OR_RETURN(auto comm, JoinOnTwoHosts(world));
    std::vector<float> in(400'000), out(in.size());
    DISTILL_RETURN_IF_ERROR(ExpectCount("endpoints at first", endpoints - closed_endpoints, of_lane + 1));
    DISTILL_RETURN_IF_ERROR(CheckSums(*comm, {400'000}));
    DISTILL_RETURN_IF_ERROR(CheckAllToAll(*comm, in.data(), out.data(), 100'000));
    return ExpectCount("endpoints after a long all-to-all", endpoints - closed_endpoints, of_lane + 1 + 2);
  });
  CHECK(Failures(outcomes) == "");
}

// Each rank is a host by itself here, so that all cards are its own, and the ring goes over as many rails.
TEST_CASE("sums and gathers around a ring over one, three and eight rails are exact", "[own_fabric]") {
  testing::LoadFabric();
  for (const int cards : {1, 3, 8}) {
    CAPTURE(cards);
    const auto outcomes = RunRanks(3, absl::Seconds(100), [cards](const World& world) -> absl::Status {
      cards_here = cards;
      DISTILL_RETURN_IF_ERROR(WatchFabric());
      DISTILL_ASSIGN_OR_RETURN(auto comm, JoinApart(world));
      DISTILL_RETURN_IF_ERROR(ExpectCount("endpoints", endpoints, cards));
      // Of blocks of many chunks and a rest, of a chunk for each rail at most, and of less than one.
      return CheckSums(*comm, {3'000'017, 100'003, 5});
    });
    CHECK(Failures(outcomes) == "");
  }
}

TEST_CASE("with one rail no second communicator is opened between all ranks", "[own_fabric]") {
  testing::LoadFabric();
  const auto outcomes = RunRanks(4, absl::Seconds(100), [](const World& world) -> absl::Status {
    cards_here = 1;
    DISTILL_RETURN_IF_ERROR(WatchFabric());
    DISTILL_ASSIGN_OR_RETURN(auto comm, JoinOnTwoHosts(world));
    std::vector<float> in(400'000), out(in.size());
    DISTILL_RETURN_IF_ERROR(CheckAllToAll(*comm, in.data(), out.data(), 100'000));
    return ExpectCount("endpoints", endpoints, 2);
  });
  CHECK(Failures(outcomes) == "");
}

// Where something happens to rank 2 as it opens its cards for the first long call between all ranks: that call's error.
absl::Status ExpectNoCardsOf2(const World& world, Asked what, const std::string& error) {
  DISTILL_RETURN_IF_ERROR(WatchFabric());
  DISTILL_ASSIGN_OR_RETURN(auto comm, JoinOnTwoHosts(world));
  std::vector<float> in(400'000), out(in.size());
  DISTILL_RETURN_IF_ERROR(CheckAllToAll(*comm, in.data(), out.data(), 1000));
  if (world.rank == 2) asked = what;
  const absl::Status status =
      ExpectWithin(absl::Seconds(30), [&] { return CheckAllToAll(*comm, in.data(), out.data(), 100'000); });
  DISTILL_RETURN_IF_ERROR(
      ExpectError(status, absl::StatusCode::kUnavailable,
                  {absl::StrCat("all-to-all number 2 over shm+fabric failed on rank ", world.rank), error}));
  return Expect(comm->Barrier() == status, "not poisoned");
}

TEST_CASE("where a rank cannot open its cards for a long call between all ranks, the call fails on every rank",
          "[own_fabric]") {
  testing::LoadFabric();
  CHECK(Failures(RunRanks(4, absl::Seconds(100), [](const World& world) {
          return ExpectNoCardsOf2(world, Asked::kFails, "rank 2 on host-b: no fabric: libfabric has nothing for");
        })) == "");
}

TEST_CASE("a rank that is killed as it opens its cards for a long call ends the others' call, by name",
          "[own_fabric]") {
  testing::LoadFabric();
  auto outcomes = RunRanks(4, absl::Seconds(100), [](const World& world) {
    return ExpectNoCardsOf2(world, Asked::kKills, "rank 2 on host-b was lost");
  });
  CHECK(outcomes[2].signal == SIGKILL);
  outcomes.erase(outcomes.begin() + 2);
  CHECK(Failures(outcomes) == "");
}

absl::Status WatchNamedFabric() {
  calls_itself_efa = true;
  return WatchFabric();
}

// The table with which the ranks' communicator chooses is this fabric's, on every rank.
absl::Status ExpectCosts(const Communicator& comm, const FabricTraits& traits) {
  const CommTuning& used = *dynamic_cast<const CommBackend&>(comm).tuning();
  const DefaultCosts wanted = DefaultCostsOf(traits);
  return Expect(used.table() == wanted.table && used.source() == wanted.name && !used.was_given(),
                absl::StrCat("costs of ", used.source(), ", not of ", wanted.name));
}

// Two ranks a host: of one card of 100 Gbit/s each has as much as on P4d, of eight as much as on P5.
TEST_CASE("where no table of costs is given, ranks take the one of the provider and the cards that they have",
          "[own_fabric]") {
  testing::LoadFabric();
  for (const auto& [cards, name] :
       {std::pair(1, "efa as on P4d, host memory"), std::pair(8, "efa as on P5, host memory")}) {
    CAPTURE(cards);
    CHECK(DefaultCostsOf({"efa", cards * 6.25, false}).name == name);
    const auto outcomes = RunRanks(4, absl::Seconds(100), [cards = cards](const World& world) -> absl::Status {
      cards_here = cards;
      DISTILL_RETURN_IF_ERROR(WatchNamedFabric());
      DISTILL_ASSIGN_OR_RETURN(auto comm, JoinOnTwoHosts(world));
      DISTILL_RETURN_IF_ERROR(ExpectCosts(*comm, {"efa", cards * 6.25, false}));
      DISTILL_RETURN_IF_ERROR(CheckSums(*comm, {10, 100'000}));
      // A part's ranks are of one host each.
      DISTILL_ASSIGN_OR_RETURN(auto part, comm->Split(world.rank % 2, world.rank));
      return ExpectCosts(*part, {"efa", cards * 6.25, false});
    });
    CHECK(Failures(outcomes) == "");
  }
}

TEST_CASE("of hosts with different cards all ranks take the table of the one with the least", "[own_fabric]") {
  testing::LoadFabric();
  CHECK(Failures(RunRanks(4, absl::Seconds(100), [](const World& world) -> absl::Status {
          cards_here = world.rank < 2 ? 8 : 1;
          DISTILL_RETURN_IF_ERROR(WatchNamedFabric());
          DISTILL_ASSIGN_OR_RETURN(auto comm, JoinOnTwoHosts(world));
          return ExpectCosts(*comm, {"efa", 6.25, false});
        })) == "");
}

TEST_CASE("without efa ranks take tcp's table of costs, or shm's, and under any provider one that is given",
          "[own_fabric]") {
  testing::LoadFabric();
  for (const std::string provider : {"tcp", "shm"}) {
    CAPTURE(provider);
    CHECK(Failures(RunRanks(2, absl::Seconds(60), [&](const World& world) -> absl::Status {
            setenv("DISTILL_FABRIC_PROVIDER", provider.c_str(), 1);
            setenv("FI_TCP_IFACE", "lo", 1);
            const CommunicatorOptions options = {.backend = BackendPreference::kFabric, .timeout = absl::Seconds(50)};
            DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, options));
            DISTILL_RETURN_IF_ERROR(CheckSums(*comm, {10, 100'000}));
            return ExpectCosts(*comm, {provider == "tcp" ? "tcp;ofi_rxm" : "shm", 0, false});
          })) == "");
  }
  const testing::TempFolder folder;
  const CostTable given = {{0.5, 0, 9}, {30, 4, 3.5}, 20};
  folder.Write("table.yaml", TuningFileText(given));
  CHECK(Failures(RunRanks(4, absl::Seconds(100), [&](const World& world) -> absl::Status {
          DISTILL_RETURN_IF_ERROR(WatchNamedFabric());
          // Rank 0's file is every rank's.
          setenv("DISTILL_COMM_TUNING_FILE", world.rank == 0 ? (folder / "table.yaml").c_str() : "/nowhere", 1);
          DISTILL_ASSIGN_OR_RETURN(auto comm, JoinOnTwoHosts(world));
          const CommTuning& used = *dynamic_cast<const CommBackend&>(*comm).tuning();
          return Expect(used.table() == given && used.was_given(), "another table");
        })) == "");
}

// Sums over a communicator, one after the other, until all of them were right or one was not.
absl::Status SumOften(Communicator& comm, int64_t count) {
  std::vector<float> data(static_cast<size_t>(count));
  for (int i = 0; i < 20; ++i) {
    std::fill(data.begin(), data.end(), static_cast<float>(comm.rank() + i));
    DISTILL_RETURN_IF_ERROR(comm.AllReduce(data.data(), data.data(), count, DType::kFloat32, ReduceOp::kSum));
    const int n = comm.world_size();
    const float wanted = static_cast<float>(n * (n - 1) / 2 + n * i);
    if (data != std::vector<float>(data.size(), wanted)) return absl::InternalError(absl::StrCat("wrong sum ", i));
  }
  return absl::OkStatus();
}

// The whole, and two parts of it: one in two levels, and one with a rank of each host.
absl::Status ShareEndpoints(const World& world) {
  constexpr int kOwn = kCards / 2;
  DISTILL_RETURN_IF_ERROR(WatchNamedFabric());
  DISTILL_ASSIGN_OR_RETURN(auto comm, JoinOnTwoHosts(world));
  DISTILL_ASSIGN_OR_RETURN(auto levels, comm->Split(0, -world.rank));
  DISTILL_ASSIGN_OR_RETURN(auto pair, comm->Split(world.rank % 2, world.rank));
  std::vector<float> in(400'000), out(in.size());
  for (Communicator* each : {comm.get(), levels.get(), pair.get()}) {
    DISTILL_RETURN_IF_ERROR(testing::CheckCollectives(*each, {.counts = {1009}, .dtypes = {DType::kFloat32}}));
    DISTILL_RETURN_IF_ERROR(CheckAllToAll(*each, in.data(), out.data(), 100'000));
  }
  // At the same time, each in an order of its own: no two ranks agree on whose call is first.
  std::vector<absl::Status> ended(3);
  std::vector<std::thread> threads;
  threads.emplace_back([&] { ended[0] = SumOften(*comm, 100'003); });
  threads.emplace_back([&] { ended[1] = SumOften(*levels, 200'003); });
  threads.emplace_back([&] { ended[2] = SumOften(*pair, 300'007); });
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : ended) DISTILL_RETURN_IF_ERROR(status);
  DISTILL_RETURN_IF_ERROR(ExpectCount("endpoints of three communicators", endpoints, kOwn));
  // Whoever ends leaves the others theirs.
  comm.reset();
  DISTILL_RETURN_IF_ERROR(CheckSums(*levels, {10, 100'000}));
  pair.reset();
  DISTILL_ASSIGN_OR_RETURN(auto later, levels->Split(0, world.rank));
  DISTILL_RETURN_IF_ERROR(CheckSums(*later, {10, 100'000}));
  DISTILL_RETURN_IF_ERROR(ExpectCount("endpoints with one more part", endpoints - closed_endpoints, kOwn));
  levels.reset();
  later.reset();
  return ExpectCount("open endpoints at the end", endpoints - closed_endpoints, 0);
}

TEST_CASE("on efa the communicators of a rank share one endpoint for each of its cards, and work at the same time",
          "[own_fabric]") {
  testing::LoadFabric();
  CHECK(Failures(RunRanks(4, absl::Seconds(100), &ShareEndpoints)) == "");
}

TEST_CASE("whether communicators share endpoints is chosen by DISTILL_FABRIC_SHARED, and anything else is refused",
          "[own_fabric]") {
  testing::LoadFabric();
  const auto outcomes = RunRanks(4, absl::Seconds(100), [](const World& world) -> absl::Status {
    setenv("DISTILL_FABRIC_SHARED", "0", 1);
    DISTILL_RETURN_IF_ERROR(WatchNamedFabric());
    DISTILL_ASSIGN_OR_RETURN(auto comm, JoinOnTwoHosts(world));
    DISTILL_RETURN_IF_ERROR(ExpectCount("endpoints", endpoints, kCards / 2 + 1));
    // Of a rank alone: what it does concerns no other.
    if (world.rank == 1) setenv("DISTILL_FABRIC_SHARED", "maybe", 1);
    return ExpectError(comm->Split(0, 0).status(), absl::StatusCode::kInvalidArgument,
                       {"rank 1 on host-a: DISTILL_FABRIC_SHARED is 'maybe'; 0 and 1 are known"});
  });
  CHECK(Failures(outcomes) == "");
}

// The arithmetic of the above for P5: 32 cards, 8 ranks with GPUs, the job's communicator and two parts of it. An
// endpoint of efa's pins its receive queue when it is first polled: about 8,192 packets (a card's max_rq_wr by its
// max_rq_sge, rounded down to a power of two) of 8,928 bytes and their headers. An estimate, of no card of ours.
TEST_CASE("endpoints and pinned bytes of a rank on P5, by calculation", "[own_fabric]") {
  constexpr int kHostCards = 32, kOwn = kHostCards / 8, kCommunicators = 3;
  constexpr int64_t kPinned = int64_t{8192} * (8928 + 48);
  struct Row {
    const char* what;
    int endpoints;
  };
  const Row rows[] = {{"every rank on all cards (lane, lane of device memory on the nearest, flat)",
                       kCommunicators * (kHostCards + kOwn + kHostCards)},
                      {"every rank on its own cards, each communicator by itself, before a long flat call",
                       kCommunicators * (kOwn + kOwn + 1)},
                      {"the same, after a long flat call", kCommunicators * (kOwn + kOwn + 1 + kOwn)},
                      {"all communicators share a rank's own cards, for host and for device memory", kOwn + kOwn}};
  for (const Row& row : rows) {
    std::printf("%-82s: %3d endpoints, %5.2f GB pinned\n", row.what, row.endpoints,
                static_cast<double>(row.endpoints * kPinned) / 1e9);
  }
  CHECK(rows[0].endpoints == 204);
  CHECK(rows[2].endpoints == 39);
  CHECK(rows[3].endpoints == 8);
}

}  // namespace
}  // namespace distill
