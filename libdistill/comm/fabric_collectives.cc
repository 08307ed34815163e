#include "libdistill/comm/fabric_collectives.h"

#include <algorithm>

#include "libdistill/comm/fabric_scratch.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

ExchangePlan PlanOf(CommAlgorithm algorithm, CommOperation operation, const ExchangeShape& shape) {
  if (operation == CommOperation::kReduceScatter) return PlanDirectReduceScatter(shape);
  if (operation == CommOperation::kAllGather) return PlanDirectAllGather(shape);
  if (algorithm == CommAlgorithm::kRecursiveDoubling) return PlanRecursiveDoubling(shape);
  if (algorithm == CommAlgorithm::kRabenseifner) return PlanRabenseifner(shape);
  return PlanDirectAllReduce(shape);
}

}  // namespace

void FabricCollectives::Close() {
  ring_.Close();
  exchange_landing_.region = FabricRegion();
}

absl::Status FabricCollectives::Run(const CommCall& call) {
  if (IsPair(call.operation)) return ring_.Move(call);
  calls_.Begin(call);
  const CommAlgorithm algorithm = Choose(call);
  return algorithm == CommAlgorithm::kRing ? ring_.Run(call) : RunExchange(algorithm, call);
}

CommAlgorithm FabricCollectives::Choose(const CommCall& call) const {
  if (!HasAlgorithms(call.operation)) return CommAlgorithm::kRing;
  return tuning_.Choose(call.operation, call.blocks(ranks_.world_size()) * call.bytes(), layout_,
                        /*flat_only=*/true);
}

absl::Status FabricCollectives::RunExchange(CommAlgorithm algorithm, const CommCall& call) {
  const int64_t size = SizeOf(call.dtype);
  const int64_t all = call.blocks(ranks_.world_size()) * call.count;
  const void* input = call.input;
  if (call.operation == CommOperation::kAllGather) {  // this rank's block goes where it belongs first
    char* mine = call.out() + ranks_.rank() * call.bytes();
    if (mine != call.input) work_.Copy(mine, call.input, call.bytes());
    input = call.output;
  }
  const bool in_place = call.operation != CommOperation::kReduceScatter && input == call.output;
  const int64_t chunk_bytes = algorithm == CommAlgorithm::kDirectExchange
                                  ? DirectChunkBytes(ranks_.world_size(), work_.on_device())
                                  : PairChunkBytes(all * size, endpoint_.rails(), work_.on_device());
  const ExchangePlan plan =
      PlanOf(algorithm, call.operation, {ranks_.rank(), ranks_.world_size(), all, chunk_bytes / size, in_place});
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, calls_.Use(input, all * size));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion to,
                           calls_.Use(call.output, call.output_blocks(ranks_.world_size()) * call.bytes()));
  DISTILL_RETURN_IF_ERROR(calls_.Fit(exchange_landing_, std::max<int64_t>(plan.landing * size, 1)));
  const FabricRegion& landing = exchange_landing_.region;
  const Exchange::Call buffers = {.input = {from.data, &from.memory()},
                                  .result = {to.data, &to.memory()},
                                  .landing = {landing.data, &landing.memory()},
                                  .dtype = call.dtype,
                                  .op = call.op,
                                  .ranks = ranks_.world_size(),
                                  .tag = calls_.tag()};
  const absl::Status status =
      exchange_.Run(plan, buffers, [this](int peer, bool receiving) { return calls_.Check(peer, receiving); });
  return calls_.End(status, "this rank and others");
}

}  // namespace distill
