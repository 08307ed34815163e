#include "libdistill/train/token_tensors.h"

#include <vector>

namespace distill {
namespace {

bool IsLossPosition(const TokenBatch& batch, int64_t row, int64_t i, LossAt loss_at) {
  if (loss_at == LossAt::kLabels) return batch.labels[row * batch.length + i] != kIgnoreLabel;
  return i < batch.document_starts[row].back();
}

}  // namespace

TokenTensors ToTensors(const TokenBatch& batch, torch::Device device, LossAt loss_at) {
  TORCH_CHECK_VALUE(loss_at == LossAt::kLabels || static_cast<int64_t>(batch.document_starts.size()) == batch.rows,
                    "a batch whose loss is at its tokens must say where its documents start and end");
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
  tensors.input.input_ids = torch::tensor(ids, torch::kInt64).view({batch.rows, batch.length}).to(device);
  tensors.input.document_starts = batch.document_starts;
  tensors.positions = torch::tensor(positions, torch::kInt64).to(device);
  tensors.labels = torch::tensor(labels, torch::kInt64).to(device);
  return tensors;
}

torch::Tensor TokenTensors::AtPositions(const torch::Tensor& states) const {
  const torch::Tensor flat = states.flatten(0, 1);
  return flat.size(0) == positions.size(0) ? flat : flat.index_select(0, positions);
}

}  // namespace distill
