// The options of a Trainer, and what is checked of them before anything is trained.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

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
  // none, or bf16: gradients travel in bfloat16, as by DDP's bf16_compress_hook (gradients/gradient_reducer.h has the
  // error).
  std::string gradient_compression = "none";
  // ZeRO (Rajbhandari et al. 2020), over all ranks: 1: each keeps and updates its share of the optimizer's state and of
  // the float32 masters; 2: and of the gradients, each parameter's coming once in a backward pass; 3: and of the
  // weights of the module's blocks, which are all there only while a block runs (shard/sharded_blocks.h; the module, or
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

// InvalidArgument: options out of range, each by name.
[[nodiscard]] absl::Status CheckTrainerOptions(const TrainerOptions& options);

}  // namespace distill
