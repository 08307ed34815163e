// What Trainer::Create looks at before anything is trained.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "absl/status/status.h"
#include "libdistill/train/trainer.h"

namespace distill {

// InvalidArgument: options out of range, each by name.
[[nodiscard]] absl::Status CheckTrainerOptions(const TrainerOptions& options);

// What forward passes use: float32, or what bf16 and fp16 ask for.
torch::Dtype WorkingType(const TrainerOptions& options);

using Fields = std::vector<std::pair<std::string, std::string>>;

// The shortest text that reads back as this value: two that differ never look alike.
std::string ExactText(double value);

// What must be the same on every rank: settings, kind of device, names, shapes and types of parameters and buffers.
Fields FingerprintOf(const torch::nn::Module& module, c10::Device device, const TrainerOptions& options);

}  // namespace distill
