// Measured: tcp's and shm's tables, by distillrun --tune on 2-core virtual machines (shm's on a busy one: the best two
// of 13 runs, which agree). Not measured: efa's, which are for two kinds of hosts, P4d (8 ranks, 4 cards of 100 Gbit/s)
// and P5 (8 ranks, 32 such cards). Those for GPUs' memory are the ones of bench/tuning/ (Cluster::Costs in simulate/
// computes them, a test compares). For host memory a message has no kernel to wait for, which is 10 us of the latency;
// a rank's part of its host's memory is published: 12 channels of DDR4-2933 on P4d, 16 of DDR4-3200 on P5, for 8 ranks;
// the other figures are tcp's.
#include "libdistill/comm/default_costs.h"

#include "absl/strings/match.h"

namespace distill {
namespace {

constexpr CostTable kShm = {.network = {4.3, 3.7, 3.6}};

constexpr CostTable kP4dDevice = {
    .shared_memory = {15, 0, 300}, .network = {31, 1, 6.25}, .reduction_gigabytes_per_second = 24.95};
constexpr CostTable kP5Device = {
    .shared_memory = {15, 0, 450}, .network = {26, 1, 50}, .reduction_gigabytes_per_second = 25.62};
constexpr CostTable kP4dHost = {.shared_memory = {0.3, 0.1, 35.2}, .network = {21, 1, 6.25}};
constexpr CostTable kP5Host = {.shared_memory = {0.3, 0.1, 51.2}, .network = {16, 1, 50}};

// Halfway between a rank's part of P4d's cards and of P5's, by ratio.
constexpr double kBetween = 17.7;

}  // namespace

DefaultCosts DefaultCostsOf(const FabricTraits& traits) {
  if (absl::StartsWith(traits.provider, "shm")) return {"shm", kShm};
  if (!absl::StartsWith(traits.provider, "efa")) return {"tcp", CostTable()};
  const bool fast = traits.gigabytes_per_second > kBetween;
  if (traits.on_device) {
    return fast ? DefaultCosts{"efa as on P5", kP5Device} : DefaultCosts{"efa as on P4d", kP4dDevice};
  }
  return fast ? DefaultCosts{"efa as on P5, host memory", kP5Host}
              : DefaultCosts{"efa as on P4d, host memory", kP4dHost};
}

}  // namespace distill
