// What a collective takes on a cluster that is not there: the algorithms' real code on many ranks in virtual time.
//
//   DISTILL_ASSIGN_OR_RETURN(const SimulatedTime time,
//                            Simulate(P5(), {.hosts = 64, .operation = CommOperation::kAllReduce, .bytes = 64 << 20}));
//   time.microseconds, time.bus_gigabytes_per_second, time.share_of_network
//
// The figures of a cluster are data: published ones, and assumptions, which docs/collectives.md ("At 64 hosts") tells
// apart. Nothing here is measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/comm/call.h"
#include "libdistill/comm/tuning.h"

namespace distill {

// A host that is not like the others.
struct Straggler {
  int host = 0;
  double slower = 1;   // its cards take so many times as long for each byte
  double late_us = 0;  // all its ranks make the call so much later
};

struct Cluster {
  std::string name;
  int ranks_per_host = 8;  // a GPU each
  // Published by the provider and the makers.
  int cards_per_host = 1;
  double card_gigabytes_per_second = 1;    // of one card, each way
  double inside_gigabytes_per_second = 1;  // of one GPU's links to the others of its host, each way
  double memory_gigabytes_per_second = 1;  // of a GPU's memory, read and written together
  // Assumed.
  double latency_us = 0;         // of a short message between hosts
  double post_us = 0;            // of a rank's thread, for each send and receive that it starts
  double card_gap_us = 0;        // that a card takes for a message at least
  int64_t eager_bytes = 0;       // longer messages wait for their receive, and
  double handshake = 0;          // take so many latencies more
  double inside_latency_us = 0;  // of a call inside a host
  double kernel_us = 0;          // to start a kernel on a GPU and to hear that it has ended
  double handover_us = 0;        // from one of a rank's threads to another, which waits for it
  std::vector<Straggler> stragglers = {};

  double host_gigabytes_per_second() const { return cards_per_host * card_gigabytes_per_second; }
  // As the table of costs has it, for ranks that have their share of a host's cards each.
  CostTable Costs() const;
};

// AWS p4d.24xlarge (8 A100 40 GB, four cards of 100 Gbit/s) and p5.48xlarge (8 H100 80 GB, 32 cards of 100 Gbit/s).
Cluster P4d();
Cluster P5();

struct SimulatedCall {
  int hosts = 1;
  CommOperation operation = CommOperation::kAllReduce;
  int64_t bytes = 0;  // of the whole result; with blocks, of all ranks' blocks together. Of float32
  // What chooses: by default the cluster's own costs, and no preference.
  AlgorithmPreference preference = AlgorithmPreference::kAuto;
  bool flat = false;  // between all ranks at once, instead of in two levels
};

struct SimulatedTime {
  double microseconds = 0;
  // As nccl-tests count it: bytes times 2(n-1)/n for an all-reduce, (n-1)/n for half of one, 1 for others, by time.
  double bus_gigabytes_per_second = 0;
  // What a host must send at least, by time, of what its cards can send.
  double share_of_network = 0;
  int64_t messages = 0;  // between hosts, of all ranks
};

// InvalidArgument: a shape that cannot be. Takes about 2 us of real time a message.
[[nodiscard]] absl::StatusOr<SimulatedTime> Simulate(const Cluster& cluster, const SimulatedCall& call);

// How many messages between hosts follow one another, each waiting for the one before: the time of the call on a
// cluster where nothing but a message between hosts takes time, and each the same.
[[nodiscard]] absl::StatusOr<int64_t> CountDependentSteps(const Cluster& cluster, const SimulatedCall& call);

}  // namespace distill
