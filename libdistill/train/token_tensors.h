// A TokenBatch as tensors on the device that trains.
#pragma once

#include <torch/types.h>

#include "libdistill/data/batch.h"
#include "libdistill/nn/language_model.h"

namespace distill {

struct TokenTensors {
  TokenInput input;         // input_ids [B, T]
  torch::Tensor positions;  // int64 [N]: where the loss is taken, as indices into the flattened [B * T]
  torch::Tensor labels;     // int64 [N]
};

TokenTensors ToTensors(const TokenBatch& batch, torch::Device device);

}  // namespace distill
