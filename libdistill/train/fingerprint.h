// What must be the same on every rank before the first step.
#pragma once

#include <torch/nn/module.h>

#include "libdistill/task/evaluator.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

// Settings, kind of device, names, shapes and types of parameters and buffers.
Fields FingerprintOf(const torch::nn::Module& module, c10::Device device, const TrainerOptions& options);

// What forward passes use on this device: float32, or what bf16 and fp16 ask for.
torch::Dtype WorkingType(const TrainerOptions& options, c10::Device device);

}  // namespace distill
