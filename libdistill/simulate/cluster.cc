#include "libdistill/simulate/cluster.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/simulate/virtual_ranks.h"

namespace distill {
namespace {

absl::Status CheckShape(const Cluster& cluster, const SimulatedCall& call) {
  if (call.hosts < 1 || cluster.ranks_per_host < 1 || call.hosts * cluster.ranks_per_host < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(call.hosts, " hosts of ", cluster.ranks_per_host, " ranks: a simulated call needs two ranks"));
  }
  const int cards = cluster.cards_per_host, ranks = cluster.ranks_per_host;
  if (cards < 1 || (cards % ranks != 0 && ranks % cards != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(cards, " cards for ", ranks, " ranks a host: give a divisor or a multiple"));
  }
  if (IsPair(call.operation)) return absl::InvalidArgumentError("send and receive are no collectives");
  if (call.bytes < 0) return absl::InvalidArgumentError(absl::StrCat(call.bytes, " bytes"));
  return absl::OkStatus();
}

// A call's elements, per block where there are blocks; one at least, so that every rank has some of the data. All ranks
// have the same two buffers, of addresses alone.
CommCall CallOf(const SimulatedCall& call, int ranks) {
  static const VirtualMemory input(1), output(1);
  CommCall made;
  made.operation = call.operation;
  made.dtype = DType::kFloat32;
  made.input = input.data();
  made.output = output.data() + (int64_t{1} << 42);
  made.placement = {.on_device = true};
  const int64_t elements = call.bytes / SizeOf(made.dtype);
  made.count = std::max<int64_t>(1, elements / made.blocks(ranks));
  if (call.operation == CommOperation::kBarrier) made.count = 0;
  return made;
}

// What one rank, or one host, must send at least of `bytes`, among so many.
double LeastSent(CommOperation operation, int64_t bytes, int among) {
  const double share = static_cast<double>(among - 1) / among;
  const auto all = static_cast<double>(bytes);
  if (operation == CommOperation::kAllReduce) return 2 * share * all;
  if (operation == CommOperation::kBroadcast || operation == CommOperation::kReduce) return among > 1 ? all : 0;
  return share * all;
}

}  // namespace

CostTable Cluster::Costs() const {
  const double cards_per_rank = static_cast<double>(cards_per_host) / ranks_per_host;
  CostTable table;
  table.shared_memory = {inside_latency_us, 0, inside_gigabytes_per_second};
  // Of a message that is added: a send, a receive and a kernel go with it.
  table.network = {latency_us + 2 * post_us + kernel_us, 2 * post_us, card_gigabytes_per_second * cards_per_rank};
  // Two are read, one is written, by a kernel for each message; so recursive doubling, which adds all data again and
  // again, is for short data.
  constexpr double kMessageBytes = 256 << 10;
  table.reduction_gigabytes_per_second =
      kMessageBytes / 1e3 / (kernel_us + 3 * kMessageBytes / 1e3 / memory_gigabytes_per_second);
  return table;
}

Cluster P4d() {
  return {.name = "p4d.24xlarge",
          .ranks_per_host = 8,
          .cards_per_host = 4,
          .card_gigabytes_per_second = 12.5,
          .inside_gigabytes_per_second = 300,
          .memory_gigabytes_per_second = 1555,
          .latency_us = 20,
          .post_us = 0.5,
          .card_gap_us = 0.3,
          .eager_bytes = int64_t{1} << 40,
          .inside_latency_us = 15,
          .kernel_us = 10,
          .handover_us = 5};
}

Cluster P5() {
  Cluster cluster = P4d();
  cluster.name = "p5.48xlarge";
  cluster.cards_per_host = 32;
  cluster.inside_gigabytes_per_second = 450;
  cluster.memory_gigabytes_per_second = 3350;
  cluster.latency_us = 15;
  return cluster;
}

absl::StatusOr<SimulatedTime> Simulate(const Cluster& cluster, const SimulatedCall& call) {
  DISTILL_RETURN_IF_ERROR(CheckShape(cluster, call));
  VirtualRanks ranks(cluster, call.hosts, CommTuning(cluster.Costs(), call.preference), call.flat);
  const int world = call.hosts * cluster.ranks_per_host;
  DISTILL_ASSIGN_OR_RETURN(const VirtualTicks ticks, ranks.Run(CallOf(call, world)));
  SimulatedTime time;
  time.microseconds = ToMicroseconds(ticks);
  time.bus_gigabytes_per_second = LeastSent(call.operation, call.bytes, world) / time.microseconds / 1e3;
  time.share_of_network =
      LeastSent(call.operation, call.bytes, call.hosts) / time.microseconds / 1e3 / cluster.host_gigabytes_per_second();
  time.messages = ranks.network().messages();
  return time;
}

absl::StatusOr<int64_t> CountDependentSteps(const Cluster& cluster, const SimulatedCall& call) {
  constexpr double kNoTime = 1e15;  // GB/s
  Cluster only_latency = cluster;
  only_latency.card_gigabytes_per_second = only_latency.inside_gigabytes_per_second =
      only_latency.memory_gigabytes_per_second = kNoTime;
  only_latency.post_us = only_latency.card_gap_us = only_latency.handshake = only_latency.inside_latency_us = 0;
  only_latency.kernel_us = only_latency.handover_us = 0;
  only_latency.latency_us = 1;
  only_latency.stragglers.clear();
  DISTILL_RETURN_IF_ERROR(CheckShape(only_latency, call));
  // The choice is the cluster's own.
  VirtualRanks ranks(only_latency, call.hosts, CommTuning(cluster.Costs(), call.preference), call.flat);
  DISTILL_ASSIGN_OR_RETURN(const VirtualTicks ticks, ranks.Run(CallOf(call, call.hosts * cluster.ranks_per_host)));
  return static_cast<int64_t>(std::lround(ToMicroseconds(ticks)));
}

}  // namespace distill
