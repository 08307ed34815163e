#include "libdistill/task/token_tensors.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>
#include <vector>

#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/own_stream.h"

namespace distill {
namespace {

bool IsLossPosition(const TokenBatch& batch, int64_t row, int64_t i, LossAt loss_at) {
  if (loss_at == LossAt::kLabels) return batch.labels[row * batch.length + i] != kIgnoreLabel;
  return i < batch.document_starts[row].back();
}

// They belong to the stream that copied them: their memory must not go back there before this one is done with it.
TokenTensors Take(const SentTokens& sent, torch::Device device) {
  const c10::Stream here = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  sent.there.block(here);
  std::vector<torch::Tensor> all = sent.tensors.input.tensors();
  all.insert(all.end(), {sent.tensors.positions, sent.tensors.labels});
  for (torch::Tensor& tensor : all) tensor.record_stream(here);
  return sent.tensors;
}

}  // namespace

TokenTensors ToTensors(const TokenBatch& batch, torch::Device device, LossAt loss_at) {
  TORCH_CHECK_VALUE(loss_at == LossAt::kLabels || static_cast<int64_t>(batch.document_starts.size()) == batch.rows,
                    "a batch whose loss is at its tokens must say where its documents start and end");
  if (batch.sent != nullptr && batch.sent->loss_at == loss_at && batch.sent->tensors.labels.device() == device) {
    return Take(*batch.sent, device);
  }
  std::vector<int64_t> positions, labels;
  for (int64_t row = 0; row < batch.rows; ++row) {
    for (int64_t i = 0; i < batch.length; ++i) {
      if (!IsLossPosition(batch, row, i, loss_at)) continue;
      positions.push_back(row * batch.length + i);
      labels.push_back(batch.labels[positions.back()]);
      TORCH_CHECK_VALUE(labels.back() >= 0 || labels.back() == kIgnoreLabel, "label ", labels.back(), " in row ", row,
                        " of a batch is neither an id nor ", kIgnoreLabel);
    }
  }
  TokenTensors tensors;
  const std::vector<int64_t> ids(batch.input_ids.begin(), batch.input_ids.end());
  tensors.input.input_ids = ToDevice(ids, device).view({batch.rows, batch.length});
  tensors.input.document_starts = batch.document_starts;
  tensors.positions = ToDevice(positions, device);
  tensors.labels = ToDevice(labels, device);
  if (!positions.empty()) tensors.input.LayOut();  // once for teacher and student
  return tensors;
}

std::shared_ptr<const SentTokens> Send(const TokenBatch& batch, c10::Stream stream, LossAt loss_at) {
  const c10::StreamGuard guard(stream);
  TokenTensors tensors = ToTensors(batch, stream.device(), loss_at);
  return std::make_shared<const SentTokens>(SentTokens{std::move(tensors), loss_at, RecordEvent(stream.device())});
}

}  // namespace distill
