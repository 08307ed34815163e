#include "libdistill/train/evaluation.h"

#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/train_step.h"

namespace distill {

absl::StatusOr<std::map<std::string, double>> MeansOverData(Communicator& comm, torch::nn::Module& module,
                                                            const ShardedModels& models, DataSharder& sharder,
                                                            const TokenLoss& loss) {
  DISTILL_RETURN_IF_ERROR(Agree(comm, sharder.Restore({.epoch = 0, .row = 0, .seed = sharder.state().seed})));
  DISTILL_RETURN_IF_ERROR(BroadcastBuffers(comm, module));
  const bool was_training = module.is_training();
  module.eval();
  SumsOverRanks sums(comm);
  int64_t count = 0;
  const absl::Status mine = CatchTorch([&]() -> absl::Status {
    const torch::NoGradGuard no_grad;
    for (int64_t step = 0, steps = sharder.steps_per_epoch(); step < steps; ++step) {
      for (const TokenBatch& batch : sharder.NextStep()) {
        if (batch.num_loss_tokens() == 0) {
          models.Skip(/*trains=*/false);
          continue;
        }
        count += batch.num_loss_tokens();
        const auto add = [&] { return sums.Add(loss(batch), batch.num_loss_tokens()); };
        DISTILL_RETURN_IF_ERROR(models.RunOnce(/*trains=*/false, add));
      }
    }
    return absl::OkStatus();
  });
  if (!mine.ok()) models.Abort(mine);
  module.train(was_training);
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(&count, &count, 1, DType::kInt64, ReduceOp::kSum));
  DISTILL_ASSIGN_OR_RETURN(const auto means, sums.Finish(mine, count));
  return std::map<std::string, double>(means.begin(), means.end());
}

}  // namespace distill
