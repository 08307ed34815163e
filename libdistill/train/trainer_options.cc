#include "libdistill/train/trainer_options.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/train/loss_scale.h"
#include "libdistill/train/schedule.h"

namespace distill {
absl::Status CheckTrainerOptions(const TrainerOptions& options) {
  const auto require = [](bool holds, const char* name, auto value, const char* limit) -> absl::Status {
    if (holds) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", value, " is not ", limit));
  };
  DISTILL_RETURN_IF_ERROR(require(options.max_steps > 0 || options.num_train_epochs > 0, "num_train_epochs",
                                  options.num_train_epochs, "above 0"));
  DISTILL_RETURN_IF_ERROR(require(options.learning_rate >= 0, "learning_rate", options.learning_rate, "0 or more"));
  DISTILL_RETURN_IF_ERROR(require(options.weight_decay >= 0, "weight_decay", options.weight_decay, "0 or more"));
  for (const auto& [name, beta] : {std::pair{"adam_beta1", options.adam_beta1}, {"adam_beta2", options.adam_beta2}}) {
    DISTILL_RETURN_IF_ERROR(require(beta >= 0 && beta < 1, name, beta, "0 or more and below 1"));
  }
  DISTILL_RETURN_IF_ERROR(require(options.adam_epsilon > 0, "adam_epsilon", options.adam_epsilon, "above 0"));
  DISTILL_RETURN_IF_ERROR(require(options.max_grad_norm >= 0, "max_grad_norm", options.max_grad_norm, "0 or more"));
  DISTILL_RETURN_IF_ERROR(require(options.warmup_ratio >= 0 && options.warmup_ratio <= 1, "warmup_ratio",
                                  options.warmup_ratio, "within 0 and 1"));
  if (options.bf16 && options.fp16) {
    return absl::InvalidArgumentError("bf16 and fp16 are both true: choose one of them");
  }
  DISTILL_RETURN_IF_ERROR(
      require(options.initial_loss_scale >= LossScale::kSmallest && options.initial_loss_scale <= LossScale::kLargest,
              "initial_loss_scale", options.initial_loss_scale, "within 1 and 2^40"));
  DISTILL_RETURN_IF_ERROR(
      require(options.loss_scale_window > 0, "loss_scale_window", options.loss_scale_window, "above 0"));
  DISTILL_RETURN_IF_ERROR(require(options.bucket_bytes > 0, "bucket_bytes", options.bucket_bytes, "above 0"));
  DISTILL_RETURN_IF_ERROR(
      require(options.zero_stage >= 0 && options.zero_stage <= 3, "zero_stage", options.zero_stage, "0, 1, 2 or 3"));
  DISTILL_RETURN_IF_ERROR(require(options.gradient_compression == "none" || options.gradient_compression == "bf16",
                                  "gradient_compression", options.gradient_compression, "none or bf16"));
  return Schedule::Create(options.lr_scheduler_type, 0, 0, 1).status();
}

}  // namespace distill
