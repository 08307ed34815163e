#include "libdistill/train/token_tensors.h"

#include <vector>

namespace distill {

TokenTensors ToTensors(const TokenBatch& batch, torch::Device device) {
  std::vector<int64_t> positions, labels;
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    if (batch.labels[i] == kIgnoreLabel) continue;
    positions.push_back(static_cast<int64_t>(i));
    labels.push_back(batch.labels[i]);
  }
  TokenTensors tensors;
  const std::vector<int64_t> ids(batch.input_ids.begin(), batch.input_ids.end());
  tensors.input.input_ids = torch::tensor(ids, torch::kInt64).view({batch.rows, batch.length}).to(device);
  tensors.input.document_starts = batch.document_starts;
  tensors.positions = torch::tensor(positions, torch::kInt64).to(device);
  tensors.labels = torch::tensor(labels, torch::kInt64).to(device);
  return tensors;
}

}  // namespace distill
