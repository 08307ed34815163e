#include "libdistill/task/device_batch.h"

#include <c10/core/StreamGuard.h>

#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/own_stream.h"

namespace distill {
namespace {

// Of tensors that another stream copied: what this device's current stream does next waits for them, and their memory
// must not go back there before this one is done with it.
void UseHere(const c10::Event& there, c10::Device device, c10::ArrayRef<torch::Tensor> tensors) {
  const c10::Stream here = CurrentStream(device);
  there.block(here);
  for (const torch::Tensor& tensor : tensors) tensor.record_stream(here);
}

torch::Tensor ViewOfHost(const HostTensor& tensor) {
  const auto options = torch::TensorOptions(ToTorch(tensor.dtype()));
  // Nobody writes there: what passes change in place they must clone.
  return torch::from_blob(
      const_cast<void*>(tensor.data()), tensor.shape(), /*deleter=*/[tensor](void*) {}, options);
}

bool IsLossPosition(const TokenBatch& batch, int64_t row, int64_t i, LossAt loss_at) {
  if (loss_at == LossAt::kLabels) return batch.labels[row * batch.length + i] != kIgnoreLabel;
  return i < batch.document_starts[row].back();
}

TokenTensors Take(const SentTokens& sent, torch::Device device) {
  std::vector<torch::Tensor> all = sent.tensors.input.tensors();
  all.insert(all.end(), {sent.tensors.positions, sent.tensors.labels});
  UseHere(sent.there, device, all);
  return sent.tensors;
}

}  // namespace

void TensorBatch::Load(const c10::Stream* copies) {
  loaded_.clear();
  there_.reset();
  for (const auto& [name, tensor] : tensors) loaded_[name] = ViewOfHost(tensor);
  if (copies == nullptr) return;
  const c10::StreamGuard guard(*copies);
  for (auto& [name, tensor] : loaded_) tensor = tensor.pin_memory().to(copies->device(), /*non_blocking=*/true);
  there_ = std::make_shared<c10::Event>(RecordEvent(copies->device()));
}

torch::Tensor TensorBatch::operator[](const std::string& name) const {
  const auto found = loaded_.find(name);
  TORCH_CHECK_INDEX(found != loaded_.end(), "the batch has no tensor '", name, "'; it has ",
                    absl::StrJoin(loaded_, ", ", [](std::string* out, const auto& item) { out->append(item.first); }));
  const torch::Tensor& tensor = found->second;
  if (there_ == nullptr) return tensor;
  UseHere(*there_, tensor.device(), tensor);
  return tensor;
}

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
