// The options of a Trainer (train/trainer.h).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libdistill/core/describe.h"
#include "libdistill/gradients/compression.h"
#include "libdistill/metrics/evaluation_options.h"
#include "libdistill/metrics/report_to.h"
#include "libdistill/optim/parameter_groups.h"
#include "libdistill/optim/schedule.h"
#include "libdistill/train/training_arguments.h"

namespace distill {

struct TrainerOptions {
  std::string output_dir = "";  // empty: nothing is written
  // The run may replace what another one left in output_dir: the model, when this one's is ready, the log at the start,
  // and the checkpoints, removed before the first step of the first Fit, unless this run resumes from one of them.
  bool overwrite_output_dir = false;
  double num_train_epochs = 3;
  int64_t max_steps = -1;  // above 0: overrides the epochs
  double learning_rate = 2e-5;
  double weight_decay = 0.05;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double warmup_ratio = 0.1;
  double warmup_steps = 0;  // above 0: overrides warmup_ratio; below 1 it is a share of the steps, as in transformers
  SchedulerType lr_scheduler_type = SchedulerType::kCosine;
  ScheduleShape lr_scheduler_kwargs = {};
  double max_grad_norm = 1.0;  // 0: no clipping
  ParameterGroups parameter_groups = {};
  // bfloat16 working weights over float32 master weights. kAuto: where the device multiplies them by itself (GPUs from
  // compute capability 8.0 on, CPUs with AVX512-BF16 or AMX); ranks that differ in it are an error.
  Switch bf16 = Switch::kFalse;
  // float16 working weights over float32 master weights. Gradients are made from losses times a scale (loss_scale.h),
  // which halves after a step with one that is not finite. Such a step is left out on every rank; that the scale has
  // come down to 1 without an end of them is an error. Not together with bf16.
  bool fp16 = false;
  double initial_loss_scale = 65536;  // of fp16; a power of two rounds nothing
  int64_t loss_scale_window = 2000;   // of fp16: steps in a row without such a gradient that double the scale
  int64_t logging_steps = 1;          // 0: none
  bool logging_first_step = false;
  std::vector<ReportTo> report_to = DefaultReports();
  std::string run_name = "";   // in the log, and of the folder with TensorBoard's curves
  bool disable_tqdm = false;   // nothing about progress on stdout, but the summary at the end
  bool print_metrics = false;  // a line on stdout for each value that log scrapers read (metrics/metric_lines.h)
  SaveStrategy save_strategy = SaveStrategy::kSteps;
  int64_t save_steps = 1000;     // between checkpoints; 0: none, only the trained model
  int64_t save_total_limit = 0;  // checkpoints to keep; 0: all
  // Of a checkpoint that cannot be written (a full disk) while an older one of this run is there: with kWarn training
  // continues, and the next one is tried when it is due. Without an older one it ends the run.
  SaveFailure save_failure = SaveFailure::kWarn;
  // For so long the trained model is tried to be written, to output_dir or to the folder DISTILL_FALLBACK_DIR of the
  // environment, before a full disk costs it.
  absl::Duration final_save_retry = absl::Minutes(10);
  // Above 0: that long after this process began, the run saves a checkpoint and ends, as at SIGTERM (Trainer::Fit).
  absl::Duration max_run = absl::ZeroDuration();
  int64_t max_non_finite_steps = 5;  // in a row, whose updates are left out; then the run ends
  EvalStrategy eval_strategy = EvalStrategy::kAuto;
  int64_t eval_steps = 0;      // between evaluations
  bool eval_on_start = false;  // also before the first step of a new run, of the untrained model
  BestModelOptions best_model = {};
  // A checkpoint folder, or "true" / "latest" for the newest in output_dir; "", "false" or "none": a new run.
  std::string resume_from_checkpoint = "";
  uint64_t seed = 42;
  // Gradients are summed over ranks in buckets of about this size, while the backward pass goes on.
  int64_t bucket_bytes = 25 << 20;
  // kBf16: as by DDP's bf16_compress_hook (gradients/compression.h has the error).
  GradientCompression gradient_compression = GradientCompression::kNone;
  // ZeRO (Rajbhandari et al. 2020), over all ranks. 1: each keeps and updates its share of the optimizer's state and of
  // the float32 masters; 2: and of the gradients; 3: and of the weights of the module's blocks, which are whole only
  // while a block runs (shard/sharded_blocks.h). Losses are those of 0, to rounding, and checkpoints the same files.
  // InvalidArgument: parameters of several types; in stage 3, a module without a GatedModel. In stage 3 a module may
  // come on the host, also without its blocks (LoadOptions::blocks_later); a Fit that fails leaves it without them.
  int64_t zero_stage = 0;
  // Of stage 3: the module is whole on every rank again when Fit has ended well, if there is memory (else rank 0 warns,
  // or it is the error where nothing was written). False: for a module that does not fit, and is only saved:
  // Evaluate and another Fit then refuse it.
  bool whole_after_fit = true;
  // Saved with every checkpoint and compared over the ranks before the first step: name and value of each setting.
  std::vector<std::pair<std::string, std::string>> resolved_config = {};
};

// Of a run of so many steps.
GroupedSchedule ScheduleOf(const TrainerOptions& options, int64_t total_steps);

// Whether any of them is asked for, other than the one at the end.
bool AsksForEvaluations(const TrainerOptions& options);

// InvalidArgument where options about evaluations contradict one another.
[[nodiscard]] absl::Status CheckEvaluations(const TrainerOptions& options);

// What makes the updates.
template <class V>
void DescribeOptimizer(V& v, TrainerOptions& o) {
  v.Group("Training");
  v.Field("num_train_epochs", o.num_train_epochs, FieldLimits{.low = 0, .high = 1e6, .excludes_low = true},
          "passes over the data")
      .Alias("epochs", "num_epochs", "n_epochs", "train_epochs", "max_epochs");
  v.Field("max_steps", o.max_steps, AtLeast(-1), "above 0: steps, instead of num_train_epochs")
      .Alias("num_steps", "max_train_steps", "num_train_steps", "train_steps")
      .Similar("steps", "total_steps");
  v.Field("learning_rate", o.learning_rate, AtLeast(0), "highest learning rate").Alias("lr", "max_lr", "peak_lr");
  v.Field("weight_decay", o.weight_decay, AtLeast(0), "AdamW's, not on norms and biases").Alias("wd");
  v.Field("adam_beta1", o.adam_beta1, FromUpTo(0, 1), "how long AdamW's mean of gradients remembers").Alias("beta1");
  v.Field("adam_beta2", o.adam_beta2, FromUpTo(0, 1), "how long its mean of their squares does").Alias("beta2");
  v.Field("adam_epsilon", o.adam_epsilon, Above(0), "added to that mean's root").Alias("adam_eps");
  v.Field("warmup_ratio", o.warmup_ratio, Within(0, 1), "share of the steps over which the learning rate rises")
      .Similar("warmup");
  v.Field("warmup_steps", o.warmup_steps, AtLeast(0),
          "above 0: that many steps, or below 1 that share of them, instead of warmup_ratio")
      .Alias("num_warmup_steps", "lr_warmup_steps");
  v.Field("lr_scheduler_type", o.lr_scheduler_type, "what the learning rate does after that")
      .Alias("scheduler", "lr_scheduler", "lr_schedule", "lr_decay_style")
      .RefuseWord("reduce_lr_on_plateau", "the rate does not follow evaluations here; constant is its first part")
      .RefuseWord("greedy", "the rate does not follow the loss here");
  Describe(v, o.lr_scheduler_kwargs);
  v.Together([&o] { return CheckSchedule(o.lr_scheduler_type, o.lr_scheduler_kwargs, o.learning_rate); });
  v.Field("max_grad_norm", o.max_grad_norm, AtLeast(0), "gradients are scaled down to this norm; 0: never")
      .Alias("clip_grad", "clip_grad_norm", "grad_clip", "gradient_clip_val", "gradient_clipping");
  v.Field("parameter_groups", o.parameter_groups,
          "parameters with rates or a weight decay of their own, by patterns of their names")
      .Alias("param_groups");
  v.Together([&o] { return CheckGroups(o.parameter_groups, o.lr_scheduler_type, o.learning_rate); });
}

// What decides about speed and memory.
template <class V>
void DescribeCompute(V& v, TrainerOptions& o) {
  v.Field("gradient_compression", o.gradient_compression,
          "bf16: gradients travel in bfloat16, as by DDP's bf16_compress_hook");
  v.Field("zero_stage", o.zero_stage, Within(0, 3),
          "1: each rank keeps a share of the optimizer's state; 2: and of the gradients; 3: and of the blocks' weights "
          "(embeddings and head stay whole)");
  v.Field("whole_after_fit", o.whole_after_fit, "after zero_stage 3, each rank has the whole model").InCodeOnly();
  v.Field("bucket_bytes", o.bucket_bytes, AtLeast(1), "gradients are summed over ranks in parts of about this size");
  v.Field("fp16", o.fp16, "compute in float16, with float32 master weights and a dynamic loss scale; for GPUs");
  v.Field("initial_loss_scale", o.initial_loss_scale, Within(1, int64_t{1} << 40), "of fp16, at the start");
  v.Field("loss_scale_window", o.loss_scale_window, AtLeast(1), "of fp16: good steps after which the scale doubles");
  v.Field("bf16", o.bf16,
          "compute in bfloat16, with float32 master weights; auto: where the device multiplies it by itself")
      .AliasOf("torch_dtype", {{"bfloat16", "true"}, {"bf16", "true"}, {"float32", "false"}, {"auto", "auto"}})
      .AliasOf("dtype", {{"bfloat16", "true"}, {"bf16", "true"}, {"float32", "false"}, {"auto", "auto"}})
      .AliasOf("mixed_precision", {{"bf16", "true"}, {"no", "false"}})
      .Similar("precision");
}

// What is written, and when.
template <class V>
void DescribeRecords(V& v, TrainerOptions& o) {
  v.Group("Logging and checkpoints");
  v.Field("save_strategy", o.save_strategy,
          "checkpoints every save_steps or after each epoch, and of the last step; no: only the trained model")
      .RefuseWord("best", "load_best_model_at_end: true saves the best, beside those of save_steps");
  v.Field("save_steps", o.save_steps, AtLeast(0), "steps between checkpoints; 0: none, only the trained model")
      .Alias("save_interval", "save_every", "checkpoint_interval");
  v.Field("save_total_limit", o.save_total_limit, AtLeast(0),
          "checkpoints to keep, the best one besides the newest; 0: all")
      .Alias("keep_checkpoints", "max_checkpoints");
  v.Field("save_failure", o.save_failure,
          "what a checkpoint that cannot be written does to the run while an older one is there");
  v.Field("final_save_retry_seconds", o.final_save_retry, AtLeast(0),
          "how long to try to write the trained model, there or to $DISTILL_FALLBACK_DIR, where the disk is full");
  v.Field("max_run_seconds", o.max_run, AtLeast(0),
          "that long after its start the run saves a checkpoint and ends with exit code 85, as at SIGTERM; 0: never")
      .Alias("max_run", "max_runtime_seconds");
  v.Field("max_non_finite_steps", o.max_non_finite_steps, AtLeast(1),
          "steps in a row with a loss or gradient that is not finite, after which the run ends");
  v.Field("logging_steps", o.logging_steps, AtLeast(0), "steps between records; 0: none")
      .Alias("log_interval", "log_every", "log_steps");
  v.Field("logging_first_step", o.logging_first_step, "a record of the first step too, whatever logging_steps says");
  v.Field("report_to", o.report_to, "where records go, in output_dir; also all or none")
      .RefuseWord("wandb", "not written here; `wandb sync OUTPUT_DIR/tensorboard` uploads TensorBoard's curves")
      .RefuseWord("mlflow", "not written here; give metrics.jsonl's records to mlflow.log_metrics when the run is done")
      .RefuseWord("comet_ml", "not written here; upload TensorBoard's curves");
  v.Field("disable_tqdm", o.disable_tqdm, "no progress on stdout, only the summary at the end");
  v.Field("print_metrics", o.print_metrics,
          "while training, too, lines for log scrapers: train_loss = 1.5, eval_loss = 1.7, eval_accuracy = 0.9")
      .Alias("log_metrics");
  v.Field("eval_strategy", o.eval_strategy,
          "held-out data is evaluated every eval_steps or after each epoch, and at the end; no: never; auto: every "
          "eval_steps, or only at the end where that is 0")
      .Alias("evaluation_strategy");
  v.Field("eval_steps", o.eval_steps, AtLeast(0), "steps between evaluations; 0: only at the end")
      .Alias("eval_interval", "eval_every");
  v.Field("eval_on_start", o.eval_on_start, "an evaluation before the first step, too: one that fails fails early");
  Describe(v, o.best_model);
  v.Together([&o] { return CheckEvaluations(o); });
  v.Field("resume_from_checkpoint", o.resume_from_checkpoint,
          "a checkpoint folder, latest (or true) for the newest in output_dir, false (or none) to start anew; may be "
          "s3://")
      .PathOfAnyStore()
      .Alias("resume", "resume_from", "resume_path")
      .Similar("checkpoint");
}

template <class V>
void Describe(V& v, TrainerOptions& o) {
  v.Group("Run");
  v.Field("output_dir", o.output_dir, "folder of the trained model, checkpoints and metrics; may be s3://")
      .PathOfAnyStore()
      .Alias("output", "out", "out_dir", "output_path", "save_dir", "save_path");
  v.Field("overwrite_output_dir", o.overwrite_output_dir,
          "replace the model that lies there, and remove its run's checkpoints, unless they are resumed from")
      .Alias("overwrite", "overwrite_output")
      .Similar("force");
  v.Field("run_name", o.run_name, "name of the run: in the log, and of the folder of TensorBoard's curves")
      .Similar("wandb_name");
  v.Field("seed", o.seed, "seed of shuffles and of random weights");
  DescribeOptimizer(v, o);
  DescribeCompute(v, o);
  DescribeRecords(v, o);
  DescribeTrainingArguments(v);
  v.Together([&o]() -> absl::Status {
    if (o.run_name.find('/') == std::string::npos && o.run_name != "..") return absl::OkStatus();
    return absl::InvalidArgumentError("run_name: must be a folder's name, not a path");
  });
  v.Together([&o]() -> absl::Status {
    if (!o.fp16 || o.bf16 != Switch::kTrue) return absl::OkStatus();
    return absl::InvalidArgumentError("bf16 and fp16 are both true: choose one of them");
  });
}

}  // namespace distill
