#include "libdistill/comm/fabric_collectives.h"

#include <algorithm>

#include "libdistill/comm/exchange_tree.h"
#include "libdistill/comm/fabric_scratch.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

ExchangePlan PlanOf(CommAlgorithm algorithm, const CommCall& call, const ExchangeShape& shape) {
  if (HasRoot(call.operation)) {
    const bool binary = algorithm == CommAlgorithm::kBinaryTree;
    const ExchangeTree tree = (binary ? BinaryTree : BinomialTree)(shape.rank, shape.ranks, call.root);
    return (call.operation == CommOperation::kReduce ? PlanTreeReduce : PlanTreeBroadcast)(shape, tree);
  }
  if (call.operation == CommOperation::kReduceScatter) return PlanDirectReduceScatter(shape);
  if (call.operation == CommOperation::kAllGather) return PlanDirectAllGather(shape);
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

int64_t FabricCollectives::ChunkBytes(CommAlgorithm algorithm, int64_t bytes) const {
  if (algorithm == CommAlgorithm::kDirectExchange) {
    return DirectChunkBytes(ranks_.world_size(), work_.on_device());
  }
  if (algorithm == CommAlgorithm::kBinomialTree || algorithm == CommAlgorithm::kBinaryTree) {
    return TreeChunkBytes(bytes, endpoint_.rails());
  }
  return PairChunkBytes(bytes, endpoint_.rails(), work_.on_device());
}

absl::Status FabricCollectives::RunExchange(CommAlgorithm algorithm, const CommCall& call) {
  const int64_t size = SizeOf(call.dtype);
  const int64_t all = call.blocks(ranks_.world_size()) * call.count;
  const void* input = call.operation == CommOperation::kBroadcast ? call.output : call.input;
  if (call.operation == CommOperation::kAllGather) {  // this rank's block goes where it belongs first
    char* mine = call.out() + ranks_.rank() * call.bytes();
    if (mine != call.input) work_.Copy(mine, call.input, call.bytes());
    input = call.output;
  }
  const void* output = call.output == nullptr ? input : call.output;  // a reduce writes on the root alone
  const bool in_place = call.operation != CommOperation::kReduceScatter && input == call.output;
  const ExchangePlan plan = PlanOf(
      algorithm, call, {ranks_.rank(), ranks_.world_size(), all, ChunkBytes(algorithm, all * size) / size, in_place});
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, calls_.Use(input, all * size));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion to,
                           calls_.Use(output, call.output_blocks(ranks_.world_size()) * call.bytes()));
  DISTILL_RETURN_IF_ERROR(calls_.Fit(exchange_landing_, std::max<int64_t>(plan.landing * size, 1)));
  const FabricRegion& landing = exchange_landing_.region;
  const Exchange::Call buffers = {.input = {from.data, &from.memory()},
                                  .result = {to.data, &to.memory()},
                                  .landing = {landing.data, &landing.memory()},
                                  .dtype = call.dtype,
                                  .op = call.op,
                                  .ranks = ranks_.world_size(),
                                  .tag = calls_.tag(),
                                  .credits = HasRoot(call.operation) ? ring_.credits() : nullptr};
  const absl::Status status =
      exchange_.Run(plan, buffers, [this](int peer, bool receiving) { return calls_.Check(peer, receiving); });
  return calls_.End(status, "this rank and others");
}

}  // namespace distill
