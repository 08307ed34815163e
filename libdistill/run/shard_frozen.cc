#include "libdistill/run/shard_frozen.h"

#include "libdistill/core/status_macros.h"
#include "libdistill/shard/sharded_models.h"

namespace distill {

absl::Status ShardFrozen(RunContext& run, LanguageModel& model) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<ShardedBlocks> blocks,
                           ShardBlocks(run.communicator(), run.device(), model));
  if (blocks != nullptr) run.AddFrozen(blocks);
  return absl::OkStatus();
}

}  // namespace distill
