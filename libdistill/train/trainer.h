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
#include "libdistill/train/run.h"

namespace distill {

struct TrainerOptions {
  std::string output_dir = "";  // empty: nothing is written
  // The run may replace what another one left in output_dir: the model, when this one's is ready, the log at the start,
  // and the checkpoints, removed before the first step of the first Fit, unless this run goes on from one of them.
  bool overwrite_output_dir = false;
  double num_train_epochs = 3;
  int64_t max_steps = -1;  // above 0: overrides the epochs
  double learning_rate = 2e-5;
  double weight_decay = 0.05;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double warmup_ratio = 0.1;
  std::string lr_scheduler_type = "cosine";  // cosine, linear, constant, constant_with_warmup
  double max_grad_norm = 1.0;                // 0: no clipping
  bool bf16 = false;                         // bfloat16 working weights over float32 master weights
  // float16 working weights over float32 master weights. Gradients are made from losses times a scale (loss_scale.h),
  // which halves after a step with one that is not finite. Such a step is left out on every rank; that the scale has
  // come down to 1 without an end of them is an error. Not together with bf16.
  bool fp16 = false;
  double initial_loss_scale = 65536;  // of fp16; a power of two rounds nothing
  int64_t loss_scale_window = 2000;   // of fp16: steps in a row without such a gradient that double the scale
  int64_t logging_steps = 1;
  int64_t save_steps = 1000;     // between checkpoints; 0: none, only the trained model
  int64_t save_total_limit = 0;  // checkpoints to keep; 0: all
  int64_t eval_steps = 0;        // 0: only at the end
  // A checkpoint folder, or "true" / "latest" for the newest in output_dir; "", "false" or "none": a new run.
  std::string resume_from_checkpoint = "";
  uint64_t seed = 42;
  // Gradients are summed over ranks in buckets of about this size, while the backward pass goes on.
  int64_t bucket_bytes = 25 << 20;
  // none, or bf16: gradients travel in bfloat16, as by DDP's bf16_compress_hook (train/gradient_reducer.h has the
  // error).
  std::string gradient_compression = "none";
  // ZeRO (Rajbhandari et al. 2020), over all ranks: 1: each keeps and updates its share of the optimizer's state and of
  // the float32 masters; 2: and of the gradients, each parameter's coming once in a backward pass; 3: and of the
  // weights of the module's blocks, which are all there only while a block runs (train/sharded_blocks.h; the module, or
  // one within it, is a GatedModel, InvalidArgument otherwise). The losses are those of 0, to rounding; checkpoints are
  // the same: rank 0 gets the others' state and blocks piece by piece while it saves (but has all weights for a writer
  // that SetModelWriter set, or of a family that does not save in turn). Parameters must be of one type
  // (InvalidArgument), and stay views into one memory of Communicator::Allocate's; in stage 3 a module may come on the
  // host, also without its blocks (LoadOptions::blocks_later). A Fit that fails leaves it without its blocks' weights.
  int64_t zero_stage = 0;
  // Of stage 3: the module is whole on every rank again when Fit has ended well, if there is memory (else rank 0 warns,
  // or it is the error where nothing was written). False: for a module that does not fit, and is only saved:
  // Evaluate and another Fit then refuse it.
  bool whole_after_fit = true;
  // Saved with every checkpoint and compared over the ranks before the first step: name and value of each setting.
  std::vector<std::pair<std::string, std::string>> resolved_config = {};
};

// One micro-batch's loss. `sums` are further sums over the same tokens that are reported as means ("kl", "ce").
struct LossSum {
  torch::Tensor loss;  // scalar with gradient; undefined when count is 0
  int64_t count = 0;
  std::map<std::string, torch::Tensor> sums = {};  // scalars, detached
};

// A micro-batch, whatever it is made of: how many loss tokens it has, and how to run its forward pass.
struct MicroStep {
  int64_t loss_count = 0;
  int64_t num_tokens = 0;
  int64_t num_samples = 0;
  std::function<LossSum()> forward;
};

// Where the steps of a task come from: the seam for batches other than TokenBatch.
class StepSource {
 public:
  virtual ~StepSource() = default;
  // The same on every rank, as all that follows about the number of steps.
  virtual int64_t steps_per_epoch() const = 0;
  // To be overridden where epochs differ.
  virtual int64_t steps_in_epoch(int64_t epoch) const {
    (void)epoch;
    return steps_per_epoch();
  }
  virtual std::vector<MicroStep> NextStep() = 0;
  // What must be the same on every rank for the steps to belong together, by name (settings, a checksum of the data).
  // Compared before the first step; to be overridden where there is such a thing.
  virtual std::vector<std::pair<std::string, std::string>> Fingerprint() const { return {}; }
  virtual ShardState state() const = 0;
  virtual absl::Status Restore(const ShardState& state) = 0;
};

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

  using TokenLoss = std::function<LossSum(const TokenBatch&)>;

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
  // model that ShardFrozen shared out lives, `loss` must run it (train/sharded_models.h). FailedPrecondition: a module
  // of zero_stage 3 that is not on its GPU yet.
  [[nodiscard]] absl::StatusOr<std::map<std::string, double>> Evaluate(DataSharder& sharder, const TokenLoss& loss);

 private:
  struct Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace distill
