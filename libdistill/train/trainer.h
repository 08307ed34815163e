// Trains a module on a task: steps over micro-batches, gradients summed over ranks, AdamW, evaluation, checkpoints.
//
//   DISTILL_ASSIGN_OR_RETURN(auto task, Distiller::Create(teacher, student, std::move(batches), {.temperature = 2}));
//   DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(run, student, {.output_dir = "runs/mine"}));
//   DISTILL_ASSIGN_OR_RETURN(const TrainResult result, trainer->Fit(*task));
//
// What is trained is the task's affair (task/task.h): where batches come from, what their losses are, how the model is
// evaluated and saved. How it is trained is that of the options (train/trainer_options.h).
//
// A step: each rank takes its micro-batches from the task; ranks tell one another what their loss terms will count;
// forward and backward passes, while gradients that are complete travel; one division by the count of the whole step,
// clipping, one update that is the same on every rank. The same global batch gives the same losses on any number of
// ranks, to rounding.
//
// Buffers of the module (running statistics, say) go with its parameters: rank 0's are given to all ranks at the start
// and before each evaluation and checkpoint, and are saved; in between each rank has its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <torch/nn/module.h>

#include "absl/status/statusor.h"
#include "libdistill/metrics/observer.h"
#include "libdistill/run/run.h"
#include "libdistill/task/task.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

struct TrainResult {
  int64_t steps = 0;
  int64_t tokens = 0;                     // that all ranks trained on
  double train_loss = 0;                  // mean over all steps
  double train_runtime = 0;               // seconds
  std::map<std::string, double> metrics;  // everything that is printed at the end, by name
};

// What forward passes use on this device: float32, or what bf16 and fp16 ask for.
torch::Dtype WorkingType(const TrainerOptions& options, c10::Device device);

class Trainer {
 public:
  // Every rank must call it. Broadcasts rank 0's parameters and buffers. InvalidArgument: options out of range, each by
  // name; an output_dir with checkpoints, unless this run resumes from one of them, or with a model and no checkpoints,
  // unless overwrite_output_dir is set. FailedPrecondition: ranks whose modules, devices or settings differ, or that
  // loaded different files; another run that writes output_dir, which this one has until its Fit ends; folders to
  // overwrite that are called like checkpoints and are none.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Trainer>> Create(RunContext& run,
                                                                       std::shared_ptr<torch::nn::Module> module,
                                                                       const TrainerOptions& options);
  ~Trainer();

  // Watches the Fits that follow (metrics/observer.h). On any ranks.
  void AddObserver(std::shared_ptr<Observer> observer);

  // Every rank must call it; blocks until training is over. Where the task has an evaluator, it is evaluated as
  // eval_strategy says. With load_best_model_at_end the module has the weights of the best evaluation then. Errors name
  // step and rank. InvalidArgument: options ask for evaluations, or for a metric, that the task does not give.
  // FailedPrecondition: ranks whose tasks differ in steps, loss terms or fingerprint; found before the first step.
  // Cancelled: SIGTERM or SIGUSR1 came to any rank, or max_run is over; a checkpoint of the step was saved, and Run
  // ends with kExitCheckpointed. ResourceExhausted, before the first step: the disk has no space for what will be
  // saved. The task must outlive the call.
  [[nodiscard]] absl::StatusOr<TrainResult> Fit(Task& task);

  // One pass of the evaluator, whose metrics are the same on every rank. No gradients. Every rank must call it. While a
  // model that ShardFrozen sharded lives, each pass must run it (shard/sharded_models.h). FailedPrecondition: a module
  // of zero_stage 3 that is not on its GPU yet.
  [[nodiscard]] absl::StatusOr<MetricValues> Evaluate(Evaluator& evaluator);

 private:
  struct Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace distill
