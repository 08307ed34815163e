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

}  // namespace

CommAlgorithm FabricCommunicator::Choose(CommOperation operation, int64_t count, DType dtype) const {
  if (work_.on_device() && world_size() > kMostDeviceSources) return CommAlgorithm::kRing;
  return seed_.tuning.Choose(operation, count * SizeOf(dtype), layout_, /*flat_only=*/true);
}

absl::Status FabricCommunicator::ExchangeAllReduce(CommAlgorithm algorithm, const void* send, void* receive,
                                                   int64_t count, DType dtype, ReduceOp op) {
  const ExchangeShape shape = {rank(), world_size(), count, ChunkElements(world_size(), dtype), send == receive};
  const ExchangePlan plan = algorithm == CommAlgorithm::kRecursiveDoubling ? PlanRecursiveDoubling(shape)
                            : algorithm == CommAlgorithm::kRabenseifner    ? PlanRabenseifner(shape)
                                                                           : PlanDirectAllReduce(shape);
  return RunExchange(plan, send, count, receive, count, dtype, op);
}

absl::Status FabricCommunicator::ExchangeReduceScatter(const void* send, void* receive, int64_t count, DType dtype,
                                                       ReduceOp op) {
  const int64_t all = count * world_size();
  const ExchangePlan plan =
      PlanDirectReduceScatter({rank(), world_size(), all, ChunkElements(world_size(), dtype), /*in_place=*/false});
  return RunExchange(plan, send, all, receive, count, dtype, op);
}

absl::Status FabricCommunicator::ExchangeAllGather(const void* send, void* receive, int64_t count, DType dtype) {
  const int64_t all = count * world_size();
  char* mine = static_cast<char*>(receive) + rank() * count * SizeOf(dtype);
  if (mine != send) work_.Copy(mine, send, count * SizeOf(dtype));
  const ExchangePlan plan =
      PlanDirectAllGather({rank(), world_size(), all, ChunkElements(world_size(), dtype), /*in_place=*/true});
  return RunExchange(plan, receive, all, receive, all, dtype, ReduceOp::kSum);
}

absl::Status FabricCommunicator::RunExchange(const ExchangePlan& plan, const void* send, int64_t send_count,
                                             void* receive, int64_t receive_count, DType dtype, ReduceOp op) {
  Begin();
  const int64_t size = SizeOf(dtype);
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, Use(send, send_count * size));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion to, Use(receive, receive_count * size));
  DISTILL_RETURN_IF_ERROR(Fit(exchange_memory_, exchange_landing_, std::max<int64_t>(plan.landing * size, 1)));
  const Exchange::Call call = {.input = {from.data, &from.memory()},
                               .result = {to.data, &to.memory()},
                               .landing = {exchange_landing_.data, &exchange_landing_.memory()},
                               .dtype = dtype,
                               .op = op,
                               .ranks = world_size(),
                               .tag = FabricTag(call_, calls_fingerprint_)};
  const absl::Status status = exchange_.Run(plan, call, [this](int peer, bool receiving) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(rendezvous_->CheckPeersIn(call_));
    if (!deadline_.Passed()) return absl::OkStatus();
    return deadline_.Error(absl::StrCat(receiving ? "waiting for data from " : "sending to ", Describe(peer)));
  });
  return End(status, "this rank and others");
}

}  // namespace distill
