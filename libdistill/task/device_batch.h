// Batches as tensors, on the device of the model: TokenBatch's (data/token_batch.h), and any other's (data/sample.h).
#pragma once

#include <map>
#include <memory>
#include <string>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/types.h>

#include "libdistill/data/sample.h"
#include "libdistill/data/token_batch.h"
#include "libdistill/nn/language_model.h"

namespace distill {

struct TensorBatch : Batch {
  TensorBatch() = default;
  TensorBatch(Batch batch) : Batch(std::move(batch)) {}  // NOLINT: every batch is one

  // A tensor by its name: of the batch's type and shape, on the device that Load named. Throws c10::Error, with the
  // names that there are.
  torch::Tensor operator[](const std::string& name) const;

  // Views of the host's tensors, which share their memory; with `copies`, the stream of a GPU, copies on that GPU, for
  // which this thread does not wait.
  void Load(const c10::Stream* copies);

 private:
  std::map<std::string, torch::Tensor> loaded_;
  std::shared_ptr<c10::Event> there_;  // of the copies; null on the host
};

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
