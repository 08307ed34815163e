// Trains any module: steps over micro-batches, gradients summed over ranks, AdamW, evaluation, logging, checkpoints.
//
//   DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(run, student, options));
//   return trainer->Fit(sharder, distiller);
//
// The loss is a callable from a batch to {sum of the loss over its tokens, their number}; gradients are divided once,
// by the number of all ranks and micro-batches. Every rank calls Fit with batches out of the same sharder settings.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "absl/status/statusor.h"
#include "libdistill/data/data_sharder.h"
#include "libdistill/task/step_source.h"
#include "libdistill/train/run.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

struct TrainResult {
  int64_t steps = 0;
  double train_loss = 0;
  double train_runtime = 0;               // seconds
  std::map<std::string, double> metrics;  // everything that is printed at the end, by name
};

class Distiller;

// Buffers of the module (running statistics, say) go with its parameters: rank 0's are given to all ranks at the start
// and before each evaluation and checkpoint, and are saved; in between each rank has its own.
class Trainer {
 public:
  // Every rank must call it. Broadcasts rank 0's parameters and buffers. InvalidArgument: options out of range, each by
  // name; an output_dir with checkpoints, unless this run goes on from one of them, or with a model and no checkpoints,
  // unless overwrite_output_dir is set. FailedPrecondition: ranks whose modules, devices or settings differ; folders
  // to overwrite that are called like checkpoints and are none.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Trainer>> Create(RunContext& run,
                                                                       std::shared_ptr<torch::nn::Module> module,
                                                                       const TrainerOptions& options);
  ~Trainer();

  // Held-out data: evaluated every eval_steps and at the end with the loss given to Fit. A Fit without such a loss
  // (that of a StepSource) is then an InvalidArgument.
  void SetEvaluation(DataSharder sharder);
  // How checkpoints and the final model are written besides the trainer's own state: called on rank 0, whose writer
  // counts, with an existing folder. Without it Fit with a Distiller of this student writes the folder that the
  // student's family has (LanguageModel::Save: config, weights, tokenizer); otherwise parameters and buffers go to
  // model.safetensors under their names.
  void SetModelWriter(std::function<absl::Status(const std::string& folder)> writer);
  // A parameter of which only the first rows are trained: the others stay as they are, without decay. Fit with a
  // Distiller does so by itself for the rows of a padded vocabulary.
  void SetActiveRows(const std::string& parameter, int64_t rows);

  // What the backward passes of the step that is being made multiply losses by: 1 but with fp16. For the losses of a
  // StepSource that take their gradients along in the forward pass (DistillationOptions::gradient_scale); Fit with a
  // Distiller sees to it by itself.
  double gradient_scale() const;

  // Every rank must call it; blocks until training is over. Errors name step and rank. FailedPrecondition: ranks whose
  // data, training or held-out, or losses differ; found before the first step.
  [[nodiscard]] absl::StatusOr<TrainResult> Fit(DataSharder& sharder, TokenLoss loss);
  [[nodiscard]] absl::StatusOr<TrainResult> Fit(DataSharder& sharder, const Distiller& distiller);
  [[nodiscard]] absl::StatusOr<TrainResult> Fit(StepSource& source);

  // Means over a whole pass of the data, over all ranks: "loss" and every sum of the callable. No gradients. While a
  // model that ShardFrozen shared out lives, `loss` must run it (shard/sharded_models.h). FailedPrecondition: a module
  // of zero_stage 3 that is not on its GPU yet.
  [[nodiscard]] absl::StatusOr<std::map<std::string, double>> Evaluate(DataSharder& sharder, const TokenLoss& loss);

 private:
  struct Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace distill
