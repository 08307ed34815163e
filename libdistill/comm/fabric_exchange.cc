// Reductions and gathering over the fabric by the algorithms of exchange.h, where the table of costs prefers them to
// the ring.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/device_reduce.h"
#include "libdistill/comm/fabric_communicator.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// Chunks are shorter where more of them land at one time.
int64_t ChunkElements(int ranks, DType dtype) {
  constexpr int64_t kLandingBytes = 4 << 20;
  constexpr int64_t kShortest = 16 << 10;
  const int64_t bytes = std::clamp(kLandingBytes / (2 * (ranks - 1)), kShortest, kFabricChunkBytes);
  return bytes / SizeOf(dtype);
}

ExchangePlan PlanOf(CommAlgorithm algorithm, CommOperation operation, const ExchangeShape& shape) {
  if (operation == CommOperation::kReduceScatter) return PlanDirectReduceScatter(shape);
  if (operation == CommOperation::kAllGather) return PlanDirectAllGather(shape);
  if (algorithm == CommAlgorithm::kRecursiveDoubling) return PlanRecursiveDoubling(shape);
  if (algorithm == CommAlgorithm::kRabenseifner) return PlanRabenseifner(shape);
  return PlanDirectAllReduce(shape);
}

}  // namespace

CommAlgorithm FabricCommunicator::Choose(const CommCall& call) const {
  if (!HasAlgorithms(call.operation)) return CommAlgorithm::kRing;
  if (work_.on_device() && world_size() > kMostDeviceSources) return CommAlgorithm::kRing;
  return seed_.tuning.Choose(call.operation, call.blocks(world_size()) * call.bytes(), layout_, /*flat_only=*/true);
}

absl::Status FabricCommunicator::RunExchange(CommAlgorithm algorithm, const CommCall& call) {
  const int64_t size = SizeOf(call.dtype);
  const int64_t all = call.blocks(world_size()) * call.count;
  const void* input = call.input;
  if (call.operation == CommOperation::kAllGather) {  // this rank's block goes where it belongs first
    char* mine = call.out() + rank() * call.bytes();
    if (mine != call.input) work_.Copy(mine, call.input, call.bytes());
    input = call.output;
  }
  const bool in_place = call.operation != CommOperation::kReduceScatter && input == call.output;
  const ExchangePlan plan =
      PlanOf(algorithm, call.operation, {rank(), world_size(), all, ChunkElements(world_size(), call.dtype), in_place});
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, Use(input, all * size));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion to, Use(call.output, call.output_blocks(world_size()) * call.bytes()));
  DISTILL_RETURN_IF_ERROR(Fit(exchange_memory_, exchange_landing_, std::max<int64_t>(plan.landing * size, 1)));
  const Exchange::Call buffers = {.input = {from.data, &from.memory()},
                                  .result = {to.data, &to.memory()},
                                  .landing = {exchange_landing_.data, &exchange_landing_.memory()},
                                  .dtype = call.dtype,
                                  .op = call.op,
                                  .ranks = world_size(),
                                  .tag = FabricTag(call_, calls_fingerprint_)};
  const absl::Status status = exchange_.Run(plan, buffers, [this](int peer, bool receiving) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(rendezvous_->CheckPeersIn(call_));
    if (!deadline_.Passed()) return absl::OkStatus();
    return deadline_.Error(absl::StrCat(receiving ? "waiting for data from " : "sending to ", Describe(peer)));
  });
  return End(status, "this rank and others");
}

}  // namespace distill
