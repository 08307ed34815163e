#include "libdistill/train/fingerprint.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/description.h"
#include "libdistill/nn/model_content.h"
#include "libdistill/run/device.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/unbacked.h"

namespace distill {
namespace {

std::string DescribeTensor(const torch::Tensor& tensor) {
  return absl::StrCat(ShapeToString(tensor.sizes()), " ", c10::toString(tensor.scalar_type()),
                      HasMemory(tensor) ? "" : ", not loaded yet");
}

}  // namespace

torch::Dtype WorkingType(const TrainerOptions& options, c10::Device device) {
  if (options.fp16) return torch::kFloat16;
  const bool in_bf16 = options.bf16 == Switch::kAuto ? MultipliesBf16(device) : options.bf16 == Switch::kTrue;
  return in_bf16 ? torch::kBFloat16 : torch::kFloat32;
}

Fields FingerprintOf(const torch::nn::Module& module, c10::Device device, const TrainerOptions& options) {
  Fields fields = options.resolved_config;
  for (auto& field : ValuesOf(options)) fields.push_back(std::move(field));
  fields.emplace_back("the type that bf16 and fp16 come to", c10::toString(WorkingType(options, device)));
  fields.emplace_back("the device that was chosen", c10::DeviceTypeName(device.type(), /*lower_case=*/true));
  for (const auto& [name, value] : ContentOf(module)) {
    fields.emplace_back(absl::StrCat(name, " of the trained model"), value);
  }
  const auto add = [&fields](const char* kind, const auto& tensors) {
    for (const auto& item : tensors) fields.emplace_back(absl::StrCat(kind, item.key()), DescribeTensor(item.value()));
  };
  add("parameter ", module.named_parameters());
  add("buffer ", module.named_buffers());
  return fields;
}

}  // namespace distill
