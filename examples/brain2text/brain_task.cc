#include "examples/brain2text/brain_task.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "examples/brain2text/brain_batches.h"
#include "examples/brain2text/drawn_trials.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/task/make_task.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

Batches<TensorBatch> CollatedBatches(DataSharder sharder, BrainCollation how) {
  Fields fields = ValuesOf(how.model);
  if (how.augmentation.has_value()) {
    const Fields more = ValuesOf(*how.augmentation);
    fields.insert(fields.end(), more.begin(), more.end());
  }
  const auto collate = [how = std::move(how)](const DealtRows& rows) { return CollateRecordings(rows, how); };
  return MakeBatches(std::move(sharder), collate, std::move(fields));
}

}  // namespace

absl::StatusOr<BrainData> OpenBrainData(const Brain2TextOptions& options) {
  using Labels = BrainRecordings::Labels;
  BrainData data;
  DISTILL_ASSIGN_OR_RETURN(const std::vector<bool> held_out, HeldOutSessions(options));
  DISTILL_ASSIGN_OR_RETURN(data.train, BrainRecordings::Open(options, "train", {}, Labels::kNeeded));
  if (std::find(held_out.begin(), held_out.end(), true) == held_out.end()) return data;
  DISTILL_ASSIGN_OR_RETURN(data.held_out, BrainRecordings::Open(options, "val", held_out, Labels::kNeeded));
  return data;
}

absl::StatusOr<std::shared_ptr<DayGru>> NewDayGru(const Brain2TextOptions& options, c10::Device device) {
  std::shared_ptr<DayGru> model;
  DISTILL_RETURN_IF_ERROR(CatchTorch([&] {
    model = std::make_shared<DayGru>(options.model, options.trainer.seed);
    model->SetTrainable(options.input_trainable, options.rnn_trainable);
    model->to(device);
  }));
  return model;
}

absl::StatusOr<int64_t> TrialsOfStep(const Brain2TextOptions& options, int world_size) {
  const int64_t parts = options.gradient_accumulation_steps * world_size;
  if (const int64_t trials = options.batch_size / parts * parts; trials > 0) return trials;
  return absl::InvalidArgumentError(absl::StrCat("batch_size is ", options.batch_size, ", and a step has ", parts,
                                                 " micro-batches (ranks times gradient_accumulation_steps): give each ",
                                                 "at least one trial"));
}

absl::StatusOr<Batches<TensorBatch>> HeldOutBatches(const World& world, const Brain2TextOptions& options,
                                                    std::shared_ptr<const BrainRecordings> recordings) {
  const int64_t rows = std::max<int64_t>(1, options.batch_size / world.world_size);
  DISTILL_ASSIGN_OR_RETURN(DataSharder sharder, DataSharder::Create(std::move(recordings), world.rank, world.world_size,
                                                                    {.rows_per_rank = rows, .shuffle = false}));
  return CollatedBatches(std::move(sharder), {.model = options.model});
}

absl::StatusOr<Batches<TensorBatch>> TrainingBatches(const World& world, const Brain2TextOptions& options,
                                                     std::shared_ptr<const BrainRecordings> recordings) {
  DISTILL_ASSIGN_OR_RETURN(const int64_t trials, TrialsOfStep(options, world.world_size));
  if (trials != options.batch_size && world.rank == 0) {
    LogInfo(absl::StrCat("a step has ", trials, " trials, the nearest below batch_size ", options.batch_size, " that ",
                         world.world_size, " ranks share evenly"));
  }
  DISTILL_ASSIGN_OR_RETURN(
      std::shared_ptr<DrawnTrials> drawn,
      DrawnTrials::Create(std::move(recordings), {.batch_size = trials,
                                                  .days_per_batch = options.days_per_batch,
                                                  .seed = static_cast<uint64_t>(options.draw_seed)}));
  const int64_t accumulation = options.gradient_accumulation_steps;
  const ShardOptions shard = {.seed = options.trainer.seed,
                              .rows_per_rank = trials / (accumulation * world.world_size),
                              .accumulation_steps = accumulation,
                              .shuffle = false};
  DISTILL_ASSIGN_OR_RETURN(DataSharder sharder,
                           DataSharder::Create(std::move(drawn), world.rank, world.world_size, shard));
  return CollatedBatches(std::move(sharder),
                         {.model = options.model, .augmentation = options.augmentation, .seed = options.trainer.seed});
}

absl::StatusOr<std::unique_ptr<BatchTask<TensorBatch>>> MakeBrainTask(const World& world,
                                                                      const Brain2TextOptions& options,
                                                                      const BrainData& data,
                                                                      std::shared_ptr<PhonemeObjective> objective) {
  DISTILL_ASSIGN_OR_RETURN(auto batches, TrainingBatches(world, options, data.train));
  auto task = std::make_unique<BatchTask<TensorBatch>>(std::move(batches), std::move(objective));
  task->SetLoader(options.loader);
  if (data.held_out != nullptr) {
    DISTILL_ASSIGN_OR_RETURN(auto held_out, HeldOutBatches(world, options, data.held_out));
    task->SetHeldOut(std::move(held_out));
  }
  return task;
}

}  // namespace distill
