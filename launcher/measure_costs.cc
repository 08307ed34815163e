#include "launcher/measure_costs.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "libdistill/comm/agree.h"
#include "libdistill/comm/create.h"
#include "libdistill/comm/host_layout.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr int64_t kLongBytes = 8 << 20;
constexpr int kBurst = 16;

// Microseconds of one call: the median of as many as fit into a fifth of a second. All ranks of `comm` make as many.
absl::StatusOr<double> MedianMicroseconds(Communicator& comm, absl::FunctionRef<absl::Status()> call) {
  constexpr double kBudget = 2e5;
  constexpr size_t kMost = 200'000, kLeast = 5, kRound = 8;
  std::vector<double> times;
  for (double spent = 0; times.size() < kLeast || (spent < kBudget && times.size() < kMost);) {
    for (size_t i = 0; i < kRound; ++i) {
      const auto start = std::chrono::steady_clock::now();
      DISTILL_RETURN_IF_ERROR(call());
      times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
      spent += times.back();
    }
    DISTILL_RETURN_IF_ERROR(comm.Broadcast(&spent, 1, DType::kFloat64, 0));
  }
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

double GigabytesPerSecond(double bytes, double microseconds) { return bytes / std::max(microseconds, 1e-3) / 1e3; }

// Between two ranks. An all-reduce of one element is one message each way at the same time, an all-gather of two long
// blocks likewise.
absl::StatusOr<LinkCost> MeasurePair(Communicator& pair) {
  LinkCost cost;
  int64_t word = 0;
  const auto exchange = [&] { return pair.AllReduce(&word, &word, 1, DType::kInt64, ReduceOp::kMax); };
  DISTILL_ASSIGN_OR_RETURN(cost.latency_us, MedianMicroseconds(pair, exchange));
  const bool first = pair.rank() == 0;
  const auto send = [&] { return pair.Send(&word, 1, DType::kInt64, 1 - pair.rank()); };
  const auto receive = [&] { return pair.Receive(&word, 1, DType::kInt64, 1 - pair.rank()); };
  const auto burst = [&]() -> absl::Status {
    for (int i = 0; i < kBurst; ++i) DISTILL_RETURN_IF_ERROR(first ? send() : receive());
    return first ? receive() : send();
  };
  DISTILL_ASSIGN_OR_RETURN(const double burst_us, MedianMicroseconds(pair, burst));
  cost.gap_us = std::max(0.0, (burst_us - 2 * cost.latency_us) / (kBurst - 1));
  std::vector<char> mine(kLongBytes, 1), both(2 * kLongBytes);
  const auto gather = [&] { return pair.AllGather(mine.data(), both.data(), kLongBytes, DType::kUInt8); };
  DISTILL_ASSIGN_OR_RETURN(const double long_us, MedianMicroseconds(pair, gather));
  cost.gigabytes_per_second = GigabytesPerSecond(kLongBytes, long_us - cost.latency_us);
  return cost;
}

// Among the ranks of a host, in memory that all of them have mapped: 2 a + 2 S / B for an all-reduce of S bytes.
absl::StatusOr<LinkCost> MeasureHost(Communicator& host) {
  LinkCost cost;
  int64_t word = 0;
  const auto exchange = [&] { return host.AllReduce(&word, &word, 1, DType::kInt64, ReduceOp::kMax); };
  DISTILL_ASSIGN_OR_RETURN(cost.latency_us, MedianMicroseconds(host, exchange));
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<CommMemory> memory, host.Allocate(kLongBytes));
  std::memset(memory->data(), 0, kLongBytes);
  const auto reduce = [&] {
    return host.AllReduce(memory->data(), memory->data(), kLongBytes / 4, DType::kFloat32, ReduceOp::kSum);
  };
  DISTILL_ASSIGN_OR_RETURN(const double long_us, MedianMicroseconds(host, reduce));
  cost.gigabytes_per_second = GigabytesPerSecond(2 * kLongBytes, long_us - 2 * cost.latency_us);
  return cost;
}

// One source added to another that is in the cache, as chunks are that have just arrived.
double MeasureReduction() {
  constexpr int64_t kBytes = 256 << 10;
  constexpr int kTimes = 200;
  std::vector<float> a(kBytes / 4, 1), b(a);
  const void* sources[] = {a.data(), b.data()};
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i) Reduce(a.data(), sources, 2, kBytes / 4, DType::kFloat32, ReduceOp::kSum);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  return GigabytesPerSecond(static_cast<double>(kBytes) * kTimes, took.count());
}

// Every rank gets the slowest of the figures; `mine` is null on a rank that has none. False: no rank has any.
absl::StatusOr<bool> TakeSlowest(Communicator& comm, const LinkCost* mine, LinkCost& slowest) {
  double costs[3] = {-1, -1, -1};
  if (mine != nullptr) {
    costs[0] = mine->latency_us;
    costs[1] = mine->gap_us;
    costs[2] = 1 / mine->gigabytes_per_second;
  }
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(costs, costs, 3, DType::kFloat64, ReduceOp::kMax));
  if (costs[2] < 0) return false;
  slowest = {costs[0], costs[1], 1 / costs[2]};
  return true;
}

absl::StatusOr<HostLayout> LearnHosts(Communicator& comm, const World& world) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> host_ids, GatherTexts(comm, world.host_id));
  return HostLayout(host_ids);
}

absl::Status MeasureSharedMemory(Communicator& comm, const HostLayout& hosts, CostTable& table) {
  const int host = hosts.HostOf(comm.rank());
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> inside,
                           comm.Split(hosts.Count(host) > 1 ? host : -1, comm.rank()));
  LinkCost cost;
  if (inside != nullptr) {
    DISTILL_ASSIGN_OR_RETURN(cost, MeasureHost(*inside));
  }
  return TakeSlowest(comm, inside == nullptr ? nullptr : &cost, table.shared_memory).status();
}

// Which pair this rank is in: the first ranks of two hosts, or two ranks of the only host; -1: in none.
int PairOf(const HostLayout& hosts, int rank) {
  const int place = hosts.hosts() == 1 ? rank : hosts.HostOf(rank);
  const int places = hosts.hosts() == 1 ? hosts.ranks() : hosts.hosts();
  const bool takes_part = hosts.hosts() == 1 || hosts.LocalRankOf(rank) == 0;
  return takes_part && (place ^ 1) < places ? place / 2 : -1;
}

absl::Status MeasureNetwork(Communicator& comm, const HostLayout& hosts, CostTable& table) {
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> pair,
                           comm.Split(PairOf(hosts, comm.rank()), comm.rank()));
  LinkCost cost;
  if (pair != nullptr) {
    DISTILL_ASSIGN_OR_RETURN(cost, MeasurePair(*pair));
  }
  return TakeSlowest(comm, pair == nullptr ? nullptr : &cost, table.network).status();
}

absl::StatusOr<std::unique_ptr<Communicator>> Join(const World& world, BackendPreference backend) {
  CommunicatorOptions options;
  options.backend = backend;
  options.timeout = absl::Seconds(60);
  return CreateCommunicator(world, options);
}

}  // namespace

absl::StatusOr<MeasuredCosts> MeasureCosts(const World& world) {
  if (world.world_size < 2) return absl::InvalidArgumentError("one rank has nothing to measure: start at least two");
  MeasuredCosts measured;
  HostLayout hosts;
  {
    DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> levels, Join(world, BackendPreference::kAuto));
    DISTILL_ASSIGN_OR_RETURN(hosts, LearnHosts(*levels, world));
    if (hosts.most() > 1) DISTILL_RETURN_IF_ERROR(MeasureSharedMemory(*levels, hosts, measured.table));
    DISTILL_RETURN_IF_ERROR(levels->Barrier());
  }
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> flat, Join(world, BackendPreference::kFabric));
  DISTILL_RETURN_IF_ERROR(MeasureNetwork(*flat, hosts, measured.table));
  measured.table.reduction_gigabytes_per_second = MeasureReduction();
  DISTILL_RETURN_IF_ERROR(
      flat->Broadcast(&measured.table.reduction_gigabytes_per_second, 1, DType::kFloat64, /*root=*/0));
  measured.layout = LayoutOf(hosts);
  return measured;
}

}  // namespace distill
