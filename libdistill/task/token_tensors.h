// A TokenBatch as tensors on the device that trains.
#pragma once

#include <memory>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/types.h>

#include "libdistill/data/token_batch.h"
#include "libdistill/nn/language_model.h"

namespace distill {

struct TokenTensors {
  TokenInput input;         // input_ids [B, T], laid out where there is a loss at all
  torch::Tensor positions;  // int64 [N]: where the loss is taken, as indices into the flattened [B * T]
  torch::Tensor labels;     // int64 [N]; kIgnoreLabel where a position has none
};

// Which tokens the loss is taken at: those with a label, or all but padding.
enum class LossAt { kLabels, kTokens };

// What was sent ahead where that is what is asked for: the device's current stream then waits for it. Otherwise copies
// are enqueued there. This thread waits for neither.
TokenTensors ToTensors(const TokenBatch& batch, torch::Device device, LossAt loss_at = LossAt::kLabels);

// Tensors that are on their way to a GPU.
struct SentTokens {
  TokenTensors tensors;
  LossAt loss_at;
  c10::Event there;
};

// Of a GPU: enqueues the copies on `stream`, beside what other streams compute, and does not wait for them. Any thread.
std::shared_ptr<const SentTokens> Send(const TokenBatch& batch, c10::Stream stream, LossAt loss_at = LossAt::kLabels);

}  // namespace distill
