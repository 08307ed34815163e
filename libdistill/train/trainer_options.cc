#include "libdistill/train/trainer_options.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/train/schedule.h"

namespace distill {
namespace {

std::string Describe(const torch::Tensor& tensor) {
  return absl::StrCat(ShapeToString(tensor.sizes()), " ", c10::toString(tensor.scalar_type()));
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
  DISTILL_RETURN_IF_ERROR(require(options.max_grad_norm >= 0, "max_grad_norm", options.max_grad_norm, "0 or more"));
  DISTILL_RETURN_IF_ERROR(require(options.warmup_ratio >= 0 && options.warmup_ratio <= 1, "warmup_ratio",
                                  options.warmup_ratio, "within 0 and 1"));
  DISTILL_RETURN_IF_ERROR(require(options.bucket_bytes > 0, "bucket_bytes", options.bucket_bytes, "above 0"));
  return Schedule::Create(options.lr_scheduler_type, 0, 0, 1).status();
}

std::vector<std::pair<std::string, std::string>> FingerprintOf(const torch::nn::Module& module, c10::Device device,
                                                               const TrainerOptions& options) {
  std::vector<std::pair<std::string, std::string>> fields = options.resolved_config;
  fields.emplace_back("the device that was chosen", c10::DeviceTypeName(device.type(), /*lower_case=*/true));
  for (const auto& item : module.named_parameters()) {
    fields.emplace_back(absl::StrCat("parameter ", item.key()), Describe(item.value()));
  }
  for (const auto& item : module.named_buffers()) {
    fields.emplace_back(absl::StrCat("buffer ", item.key()), Describe(item.value()));
  }
  fields.emplace_back("learning_rate of the trainer", absl::StrCat(options.learning_rate));
  fields.emplace_back("steps of the trainer",
                      absl::StrCat(options.max_steps, " or ", options.num_train_epochs, " epochs"));
  return fields;
}

}  // namespace distill
