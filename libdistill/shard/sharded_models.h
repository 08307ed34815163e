// The models of a run of which each rank holds a share, and what a rank does for them while it has nothing to run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/nn/language_model.h"
#include "libdistill/shard/sharded_blocks.h"

namespace distill {

// Shards the weights of a model's blocks over the ranks of `comm`, for good: a teacher that does not fit, say. Its
// weights may be on the host still; they go to the run's device. From now on every rank runs the model for each
// micro-batch with a loss, once, under torch::NoGradGuard, also in Trainer::Evaluate (FailedPrecondition on all ranks
// where one does not); the trainer takes part where a rank has none. A rank whose loss fails meanwhile ends the model's
// passes for good, on all ranks; reading a weight outside of passes throws, and names it. Every rank must call
// it; blocks. On one rank the model goes to the device, whole. InvalidArgument: a model that tells of no blocks, or
// weights of several types; FailedPrecondition: ranks whose models differ in names, shapes, types or values, or that is
// sharded already. A model that was loaded without its blocks (LoadOptions::blocks_later) gets rank 0's weights on
// every rank, and each holds its share and one weight meanwhile.
[[nodiscard]] absl::StatusOr<std::shared_ptr<ShardedBlocks>> ShardBlocks(Communicator& comm, c10::Device device,
                                                                         LanguageModel& model);

// Its plan: `elements` and `block_of` of the weights of blocks, in order.
ShardPlan PlanOfFrozen(const std::vector<int64_t>& elements, const std::vector<int64_t>& block_of, int shards);

struct ShardedModels {
  std::shared_ptr<ShardedBlocks> trained;              // null: it is whole
  std::vector<std::shared_ptr<ShardedBlocks>> frozen;  // that ShardFrozen made

  bool any() const { return trained != nullptr || !frozen.empty(); }
  // For a micro-batch that other ranks have, and this one has not.
  void Skip(bool trains) const;
  // For one that this rank has: what `body` returns, or FailedPrecondition where it has not run each of the models
  // once, to the end of the pass, as Skip does on other ranks, which would wait for this one in vain.
  [[nodiscard]] absl::Status RunOnce(bool trains, absl::FunctionRef<absl::Status()> body) const;
  void SetErrorContext(const std::function<std::string()>& context) const;
  // Lets the other ranks' passes end where this rank's came to nothing.
  void Abort(const absl::Status& error) const;
};

}  // namespace distill
