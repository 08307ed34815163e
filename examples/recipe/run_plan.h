// --plan of a recipe: memory, time and price of the run that its options describe.
//
//   RunPlan plan;
//   plan.memory.student = Planned(config, EncoderUse::kClass);
//   plan.shard = options.shard;
//   plan.samples = options.max_train_samples;
//   return DescribeRun(std::move(plan), options.trainer, options.run.device, flags, world);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/shard_options.h"
#include "libdistill/plan/memory_plan.h"
#include "libdistill/plan/plan_flags.h"
#include "libdistill/plan/planned_job.h"
#include "libdistill/run/run_options.h"
#include "libdistill/text/tokenizer.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

struct RunPlan {
  // What the recipe knows: models, the loss, data_bytes. The job, the devices, and what TrainerOptions and `shard` say
  // is filled in.
  MemoryPlanTask memory = {};
  std::optional<ShardOptions> shard = {};  // none: rows, length, packing and accumulation_steps are the recipe's
  int64_t samples = 0;  // of an epoch, for the number of steps where max_steps does not give it; 0: not known
};

// Texts of plan/memory_plan.h and plan/time_plan.h, for GPUs where `device` or an instance of the job has them. Reads
// no data and no weights; blocks for half a second at most. InvalidArgument: what cannot be planned.
[[nodiscard]] absl::StatusOr<std::string> DescribeRun(RunPlan plan, const TrainerOptions& trainer, DeviceChoice device,
                                                      const PlanFlags& flags, const World& world);

// The same as it is on GPUs, whatever is here: what DescribeRun plans, for tables of a recipe's own.
[[nodiscard]] absl::StatusOr<MemoryPlanTask> PlanOnGpus(RunPlan plan, const TrainerOptions& trainer,
                                                        const PlannedJob& job);

// A model's folder, and the option that names it.
struct NamedFolder {
  const char* option;
  std::string folder;
};
// Of an encoder and its teacher, which has an empty folder where there is none, by their config.json alone; `labels`:
// of classifiers. Errors begin with the option.
[[nodiscard]] absl::Status PlanEncoders(const NamedFolder& student, const NamedFolder& teacher, EncoderUse use,
                                        MemoryPlanTask& task, int64_t labels = 2);

// To be kept while a plan is described: it is then a part of the process that is measured, as it is of a run. Nothing
// where the folder has no tokenizer, which a plan does not need.
[[nodiscard]] absl::StatusOr<std::optional<Tokenizer>> LoadTokenizerWhereThere(const std::string& folder);

// In which a run works on the GPUs of a job (JobOf, plan/planned_job.h), or on any since 2020 where it is not planned
// for an instance.
torch::Dtype TypeOnGpus(TrainerOptions trainer, const PlannedJob& job);

// What rows of text take in memory (DataSetBytes), of files and of folders of them; nothing of what is not there yet,
// or named "".
int64_t TextBytes(const std::vector<std::string>& paths);

}  // namespace distill
