// What a Trainer does before the first step: all ranks have the same task, or all end here.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/description.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/data_sharder.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/shard/model_blocks.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/fingerprint.h"
#include "libdistill/train/sums_over_ranks.h"
#include "libdistill/train/trainer_impl.h"

namespace distill {
namespace {

// Older checkpoints have the numbers of a DataSharder.
std::string PositionOf(const TrainerState& state) {
  return state.position.value_or(DataSharder::PositionOf(state.epoch, state.row, state.data_seed));
}

// Of all that a task's passes report.
absl::StatusOr<std::vector<std::string>> NamesOf(const std::vector<TermWeight>& terms,
                                                 const std::vector<std::string>& reported) {
  if (terms.empty()) return absl::InvalidArgumentError("the task names no loss term (Task::LossTerms)");
  std::vector<std::string> names;
  for (const TermWeight& term : terms) names.push_back(term.name);
  for (const std::string& name : reported) {
    if (name == "loss" || std::find(names.begin(), names.end(), name) != names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Task::Reported names '", name, "', which is the name of the loss or of one of its terms"));
    }
    names.push_back(name);
  }
  return names;
}

LogOptions LogOptionsOf(const TrainerOptions& options) {
  return {.output_dir = options.output_dir,
          .report_to = options.report_to,
          .run_name = options.run_name,
          .shows_progress = !options.disable_tqdm};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(RunContext& run, std::shared_ptr<torch::nn::Module> module,
                                                         const TrainerOptions& options) {
  absl::Status mine = module == nullptr ? absl::InvalidArgumentError("a trainer needs a module") : absl::OkStatus();
  mine.Update(CheckOptions(options));
  if (run.rank() == 0) mine.Update(CheckOutputFolder(options));
  if (mine.ok()) {
    mine = CatchTorch([&]() -> absl::Status {
      DISTILL_RETURN_IF_ERROR(RequireWhole(*module));
      // A module that is to be sharded may not fit there, nor in this rank's memory.
      if (options.zero_stage < 3 || run.world_size() == 1) {
        LoadBlocks(*module);
        module->to(run.device());
      }
      return CheckBuffers(*module);
    });
  }
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), mine));
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(run.communicator(), FingerprintOf(*module, run.device(), options)));
  DISTILL_RETURN_IF_ERROR(CatchTorch([&]() -> absl::Status {
    const torch::NoGradGuard no_grad;
    DISTILL_RETURN_IF_ERROR(BroadcastParameters(run.communicator(), *module));
    return BroadcastBuffers(run.communicator(), *module);
  }));
  if (options.fp16 && run.device().is_cpu() && run.rank() == 0) {
    LogWarning(
        "fp16: true on a CPU, which computes in float16 very slowly: bf16: true or float32 is what CPUs are made for");
  }
  return std::unique_ptr<Trainer>(new Trainer(std::make_unique<Impl>(run, std::move(module), options)));
}

// The number of steps, and what must be the same on every rank before one is made.
absl::Status Trainer::Impl::CountSteps(Fields& fields) {
  task->Start(run.device());
  DISTILL_ASSIGN_OR_RETURN(const int64_t first_epoch, task->StepsInEpoch(0));
  total_steps = options.max_steps > 0 ? options.max_steps : epochs->StepsOf(options.num_train_epochs);
  Evaluator* evaluator = task->evaluator();
  if (evaluator == nullptr && AsksForEvaluations(options)) {
    return absl::InvalidArgumentError(
        "eval_strategy, eval_steps or metric_for_best_model asks for evaluations, but the task has no held-out data "
        "(Task::evaluator)");
  }
  // Ranks that disagree on these would wait for each other in vain.
  fields = {{"the number of steps", absl::StrCat(total_steps)},
            {"steps of the first epoch", absl::StrCat(first_epoch)},
            {"whether there is held-out data", absl::StrCat(evaluator != nullptr)}};
  for (const TermWeight& term : terms) fields.emplace_back("loss term " + term.name, NumberText(term.weight));
  DISTILL_ASSIGN_OR_RETURN(const Fields of_task, task->Fingerprint());
  fields.insert(fields.end(), of_task.begin(), of_task.end());
  if (evaluator != nullptr) {
    DISTILL_ASSIGN_OR_RETURN(const Fields held_out, evaluator->Fingerprint());
    for (const auto& [name, value] : held_out) fields.emplace_back(absl::StrCat(name, " of the held-out data"), value);
  }
  for (const auto& [name, rows] : task->TrainedRows(*module)) {
    fields.emplace_back("trained rows of " + name, absl::StrCat(rows));
  }
  return absl::OkStatus();
}

absl::Status Trainer::Impl::AgreeOnTask() {
  Fields fields;
  std::vector<std::string> names;
  int64_t whole = 0;
  const absl::Status mine = CatchTorch([&]() -> absl::Status {
    terms = task->LossTerms();
    DISTILL_ASSIGN_OR_RETURN(names, NamesOf(terms, task->Reported()));
    whole = run.rank() == 0 && !task->saves_in_order() ? 1 : 0;
    DISTILL_RETURN_IF_ERROR(CountSteps(fields));
    return FindParameters();
  });
  DISTILL_RETURN_IF_ERROR(Agree(comm(), mine));
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(comm(), fields));
  DISTILL_ASSIGN_OR_RETURN(term_names, UnionOfNames(comm(), names));
  DISTILL_RETURN_IF_ERROR(comm().AllReduce(&whole, &whole, 1, DType::kInt64, ReduceOp::kMax));
  writes_whole = whole != 0;
  return absl::OkStatus();
}

absl::Status Trainer::Impl::Prepare() {
  state = {};
  record = {};
  clock = {};
  control = {};
  tokens_since_record = 0;
  newest_checkpoint.clear();
  best_checkpoint.clear();
  last_evaluation = {};
  logged_step = 0;
  best.emplace(options.best_model);
  loss_scale.reset();
  if (options.fp16) loss_scale.emplace(options.initial_loss_scale, options.loss_scale_window);
  epochs.emplace([this](int64_t epoch) { return OrThrow(task->StepsInEpoch(epoch)); });
  DISTILL_RETURN_IF_ERROR(AgreeOnTask());
  DISTILL_RETURN_IF_ERROR(zero_stage() > 0 ? MakeShardedOptimizer() : MakeOptimizer());
  torch::manual_seed(options.seed + static_cast<uint64_t>(run.rank()));  // dropout of ranks must not be alike
  if (WantsToResume(options)) DISTILL_RETURN_IF_ERROR(Resume());
  DISTILL_RETURN_IF_ERROR(MakeReducer());
  samples_before = state.samples;
  tokens_before = state.tokens;
  return OpenLog();
}

absl::Status Trainer::Impl::Resume() {
  DISTILL_ASSIGN_OR_RETURN(state, RestoreCheckpoint(run, options, Tensors(), newest_checkpoint));
  if (state.step == 0) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(Agree(comm(), CatchTorch([&] {
                                  optimizer->set_steps(state.updates);
                                  if (loss_scale && state.loss_scale > 0) {
                                    loss_scale->Restore(state.loss_scale, state.good_steps);
                                  }
                                  record.Restore(state);
                                  best->Restore(state);
                                  if (best->step() > 0) best_checkpoint = Sibling(newest_checkpoint, best->step());
                                  return task->Restore(PositionOf(state));
                                })));
  return UseRestoredTensors();
}

absl::Status Trainer::Impl::UseRestoredTensors() {
  DISTILL_RETURN_IF_ERROR(Agree(comm(), CatchTorch([this] {
                                  optimizer->RenewWorkingCopies();
                                  return absl::OkStatus();
                                })));
  return flat != nullptr ? flat->GatherAll(comm()) : absl::OkStatus();
}

absl::Status Trainer::Impl::OpenLog() {
  const auto open = [this]() -> absl::Status {
    // Not in another Fit, whose run this one is.
    const bool replaces =
        std::exchange(options.overwrite_output_dir, false) && !(state.step > 0 && ResumesInOutputDir(options));
    if (replaces && state.step > 0) {  // resumed from elsewhere: the records here are the other run's from the first on
      DISTILL_RETURN_IF_ERROR(OpenReports(LogOptionsOf(options), 0, total_steps).status());
    }
    DISTILL_ASSIGN_OR_RETURN(reports, OpenReports(LogOptionsOf(options), state.step, total_steps));
    // As late as may be: a run that fails before has removed none.
    if (replaces) DISTILL_RETURN_IF_ERROR(RemoveCheckpoints(options.output_dir, newest_checkpoint));
    interruption = std::make_unique<Interruption>();
    how_to_resume = HowToResume(options, newest_checkpoint);
    WillSayWhereItEnds();
    return absl::OkStatus();
  };
  return Agree(comm(), run.rank() == 0 ? open() : absl::OkStatus());
}

void Trainer::Impl::WillSayWhereItEnds() {
  if (interruption == nullptr) return;
  interruption->WillSay(absl::StrCat("interrupted after step ", state.step, " of ", total_steps, "; ", how_to_resume));
}

}  // namespace distill
