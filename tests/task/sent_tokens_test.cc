// Batches as tensors, and those that were sent to a GPU ahead: the same values, whoever copies them and when.
#include <memory>
#include <vector>

#include "libdistill/core/random.h"
#include "libdistill/task/device_batch.h"
#include "libdistill/tensor/own_stream.h"
#include "tests/support/catch.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

TokenBatch RandomBatch(Random& random) {
  TokenBatch batch;
  batch.rows = 1 + static_cast<int64_t>(random.Below(4));
  batch.length = 2 + static_cast<int64_t>(random.Below(500));
  for (int64_t i = 0; i < batch.rows * batch.length; ++i) {
    batch.input_ids.push_back(static_cast<int32_t>(random.Below(150000)));
    batch.labels.push_back(random.Below(3) == 0 ? kIgnoreLabel : static_cast<int32_t>(random.Below(150000)));
  }
  batch.document_starts.assign(static_cast<size_t>(batch.rows), {0, batch.length});
  if (random.Below(2) == 0) batch.document_starts[0] = {0, batch.length / 2, batch.length};
  return batch;
}

std::vector<int64_t> ValuesOf(const torch::Tensor& tensor) {
  const torch::Tensor host = tensor.cpu().contiguous();
  return {host.data_ptr<int64_t>(), host.data_ptr<int64_t>() + host.numel()};
}

void CheckTensors(const TokenTensors& tensors, const TokenBatch& batch, torch::Device device) {
  CHECK(tensors.labels.device() == device);
  // Where a loss is taken the models' order of the tokens comes along: neither model copies anything.
  CHECK((tensors.input.layout != nullptr) == (tensors.labels.size(0) > 0));
  for (const torch::Tensor& tensor : tensors.input.tensors()) CHECK(tensor.device() == device);
  CHECK(tensors.input.input_ids.sizes() == c10::IntArrayRef({batch.rows, batch.length}));
  CHECK(ValuesOf(tensors.input.input_ids) == std::vector<int64_t>(batch.input_ids.begin(), batch.input_ids.end()));
  std::vector<int64_t> positions, labels;
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    if (batch.labels[i] == kIgnoreLabel) continue;
    positions.push_back(static_cast<int64_t>(i));
    labels.push_back(batch.labels[i]);
  }
  CHECK(ValuesOf(tensors.positions) == positions);
  CHECK(ValuesOf(tensors.labels) == labels);
}

TEST_CASE("a batch's tensors hold its ids, and its labels with their places") {
  Random random(11, 0);
  for (const torch::Device device : TestDevices()) {
    for (int i = 0; i < 20; ++i) {
      const TokenBatch batch = RandomBatch(random);
      CheckTensors(ToTensors(batch, device), batch, device);
      CHECK(ToTensors(batch, device, LossAt::kTokens).labels.size(0) == batch.rows * batch.length);
    }
  }
}

// Far more is on its way at one time than in training, while the stream that takes it has other work to do.
TEST_CASE("batches that were sent to a GPU ahead arrive whole, also while it computes") {
  for (const torch::Device device : TestDevices()) {
    if (device.is_cpu()) continue;
    Random random(12, 0);
    const c10::Stream copies = StreamOfPool(device);
    torch::Tensor busy = torch::ones({2048, 2048}, device);
    for (int round = 0; round < 20; ++round) {
      std::vector<TokenBatch> batches;
      for (int i = 0; i < 8; ++i) {
        batches.push_back(RandomBatch(random));
        batches.back().sent = Send(batches.back(), copies);
      }
      busy = torch::mm(busy, busy).clamp_(0, 1);
      for (TokenBatch& batch : batches) {
        const TokenTensors tensors = ToTensors(batch, device);
        CHECK(tensors.labels.is_same(batch.sent->tensors.labels));
        CHECK(ToTensors(batch, device, LossAt::kTokens).labels.size(0) == batch.rows * batch.length);
        batch.sent.reset();
        CheckTensors(tensors, batch, device);
      }
    }
  }
}

}  // namespace
}  // namespace distill
