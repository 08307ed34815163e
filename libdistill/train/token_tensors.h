// A TokenBatch as tensors on the device that trains.
#pragma once

#include <torch/types.h>

#include "libdistill/data/batch.h"
#include "libdistill/nn/language_model.h"

namespace distill {

struct TokenTensors {
  TokenInput input;         // input_ids [B, T]
  torch::Tensor positions;  // int64 [N]: where the loss is taken, as indices into the flattened [B * T]
  torch::Tensor labels;     // int64 [N]; kIgnoreLabel where a position has none

  // Their rows of [B, T, H], as [N, H]; the same memory where that is all of them.
  torch::Tensor AtPositions(const torch::Tensor& states) const;
};

// Which tokens the loss is taken at: those with a label, or all but padding.
enum class LossAt { kLabels, kTokens };

TokenTensors ToTensors(const TokenBatch& batch, torch::Device device, LossAt loss_at = LossAt::kLabels);

}  // namespace distill
