#include "libdistill/train/fingerprint.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/exact_text.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/unbacked.h"

namespace distill {
namespace {

std::string Describe(const torch::Tensor& tensor) {
  return absl::StrCat(ShapeToString(tensor.sizes()), " ", c10::toString(tensor.scalar_type()),
                      HasMemory(tensor) ? "" : ", not loaded yet");
}

}  // namespace

torch::Dtype WorkingType(const TrainerOptions& options) {
  if (options.fp16) return torch::kFloat16;
  return options.bf16 ? torch::kBFloat16 : torch::kFloat32;
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
