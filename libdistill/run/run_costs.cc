#include "libdistill/run/run_costs.h"

#include <array>

#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/store.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/peak_memory.h"

namespace distill {
namespace {

constexpr double kGib = int64_t{1} << 30;

// plan/memory_plan.h foretells it.
absl::StatusOr<double> PeakMemoryOfRanks(RunContext& run) {
  double gib = 0;
  DISTILL_RETURN_IF_ERROR(
      Agree(run.communicator(), CatchTorch([&] { gib = static_cast<double>(PeakMemoryBytes(run.device())) / kGib; })));
  DISTILL_RETURN_IF_ERROR(run.communicator().AllReduce(&gib, &gib, 1, DType::kFloat64, ReduceOp::kMax));
  return gib;
}

}  // namespace

absl::StatusOr<std::vector<std::pair<std::string, double>>> CostsOfRanks(RunContext& run) {
  DISTILL_ASSIGN_OR_RETURN(const double peak_memory_gib, PeakMemoryOfRanks(run));
  std::vector<std::pair<std::string, double>> costs = {{"peak_memory_gib", peak_memory_gib}};
  const StoreCounters& mine = CountersOfStores();
  std::array<int64_t, 5> sums = {mine.bytes_read, mine.bytes_written, mine.requests, mine.retries, mine.stalls};
  DISTILL_RETURN_IF_ERROR(
      run.communicator().AllReduce(sums.data(), sums.data(), sums.size(), DType::kInt64, ReduceOp::kSum));
  const auto [read, written, requests, retries, stalls] = sums;
  if (requests == 0) return costs;
  costs.insert(costs.end(), {{"store_read_gib", static_cast<double>(read) / kGib},
                             {"store_written_gib", static_cast<double>(written) / kGib},
                             {"store_requests", static_cast<double>(requests)},
                             {"store_retries", static_cast<double>(retries)},
                             {"store_stalls", static_cast<double>(stalls)}});
  return costs;
}

}  // namespace distill
