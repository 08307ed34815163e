#include "libdistill/train/trainer_options.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/unbacked.h"
#include "libdistill/train/loss_scale.h"
#include "libdistill/train/schedule.h"

namespace distill {
namespace {

std::string Describe(const torch::Tensor& tensor) {
  return absl::StrCat(ShapeToString(tensor.sizes()), " ", c10::toString(tensor.scalar_type()),
                      HasMemory(tensor) ? "" : ", not loaded yet");
}

}  // namespace

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

torch::Dtype WorkingType(const TrainerOptions& options) {
  if (options.fp16) return torch::kFloat16;
  return options.bf16 ? torch::kBFloat16 : torch::kFloat32;
}

std::string ExactText(double value) {
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

Fields FingerprintOf(const torch::nn::Module& module, c10::Device device, const TrainerOptions& options) {
  // All fields, by their order: a new one that is not named here does not compile.
  const auto& [output_dir, overwrite_output_dir, num_train_epochs, max_steps, learning_rate, weight_decay, adam_beta1,
               adam_beta2, adam_epsilon, warmup_ratio, lr_scheduler_type, max_grad_norm, bf16, fp16, initial_loss_scale,
               loss_scale_window, logging_steps, save_steps, save_total_limit, eval_steps, resume_from_checkpoint, seed,
               bucket_bytes, gradient_compression, zero_stage, whole_after_fit, resolved_config] = options;
  Fields fields = resolved_config;
  fields.insert(fields.end(), {{"output_dir", output_dir},
                               {"overwrite_output_dir", absl::StrCat(overwrite_output_dir)},
                               {"num_train_epochs", ExactText(num_train_epochs)},
                               {"max_steps", absl::StrCat(max_steps)},
                               {"learning_rate", ExactText(learning_rate)},
                               {"weight_decay", ExactText(weight_decay)},
                               {"adam_beta1", ExactText(adam_beta1)},
                               {"adam_beta2", ExactText(adam_beta2)},
                               {"adam_epsilon", ExactText(adam_epsilon)},
                               {"warmup_ratio", ExactText(warmup_ratio)},
                               {"lr_scheduler_type", lr_scheduler_type},
                               {"max_grad_norm", ExactText(max_grad_norm)},
                               {"bf16", absl::StrCat(bf16)},
                               {"fp16", absl::StrCat(fp16)},
                               {"initial_loss_scale", ExactText(initial_loss_scale)},
                               {"loss_scale_window", absl::StrCat(loss_scale_window)},
                               {"logging_steps", absl::StrCat(logging_steps)},
                               {"save_steps", absl::StrCat(save_steps)},
                               {"save_total_limit", absl::StrCat(save_total_limit)},
                               {"eval_steps", absl::StrCat(eval_steps)},
                               {"resume_from_checkpoint", resume_from_checkpoint},
                               {"seed", absl::StrCat(seed)},
                               {"bucket_bytes", absl::StrCat(bucket_bytes)},
                               {"gradient_compression", gradient_compression},
                               {"zero_stage", absl::StrCat(zero_stage)},
                               {"whole_after_fit", absl::StrCat(whole_after_fit)}});
  fields.emplace_back("the device that was chosen", c10::DeviceTypeName(device.type(), /*lower_case=*/true));
  for (const auto& item : module.named_parameters()) {
    fields.emplace_back(absl::StrCat("parameter ", item.key()), Describe(item.value()));
  }
  for (const auto& item : module.named_buffers()) {
    fields.emplace_back(absl::StrCat("buffer ", item.key()), Describe(item.value()));
  }
  return fields;
}

}  // namespace distill
