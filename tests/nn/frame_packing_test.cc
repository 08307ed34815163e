#include "libdistill/nn/frame_packing.h"

#include <vector>

#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/utils/rnn.h>

#include "tests/support/catch.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

// Rows of different lengths, so that torch's order is the only one.
void CompareWithTorch(const std::vector<int64_t>& lengths, torch::Dtype type, const Tensor& features) {
  const Tensor frames_of_rows = torch::tensor(lengths, torch::kInt64);
  const FramePacking packing = PackingOf(frames_of_rows);
  const auto expected = torch::nn::utils::rnn::pack_padded_sequence(features, frames_of_rows, /*batch_first=*/true,
                                                                    /*enforce_sorted=*/false);
  const Tensor packed = PackFrames(features, packing);
  REQUIRE(torch::equal(packing.batch_sizes, expected.batch_sizes()));
  REQUIRE(torch::equal(packed, expected.data()));
  const Tensor gradient = torch::randn(packed.sizes()).to(type);
  CHECK(torch::equal(torch::autograd::grad({packed}, {features}, {gradient})[0],
                     torch::autograd::grad({expected.data()}, {features}, {gradient})[0]));

  const int64_t times = features.size(1);
  const Tensor frames = packed.detach().requires_grad_();
  const torch::nn::utils::rnn::PackedSequence same(frames, expected.batch_sizes(), expected.sorted_indices(),
                                                   expected.unsorted_indices());
  const Tensor padded =
      std::get<0>(torch::nn::utils::rnn::pad_packed_sequence(same, /*batch_first=*/false, 0.0, times));
  const Tensor unpacked = UnpackFrames(frames, packing, times);
  REQUIRE(torch::equal(unpacked, padded));
  const Tensor of_unpacked = torch::randn(unpacked.sizes()).to(type);
  CHECK(torch::equal(torch::autograd::grad({unpacked}, {frames}, {of_unpacked})[0],
                     torch::autograd::grad({padded}, {frames}, {of_unpacked})[0]));
}

TEST_CASE("frames are packed and unpacked as torch does it, and so are their gradients") {
  torch::manual_seed(4);
  for (const torch::Dtype type : {torch::kFloat32, torch::kBFloat16}) {
    for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{1}, {6}, {2, 5, 1, 4}, {9, 3, 7}}) {
      INFO(type << ", " << lengths.size() << " rows, the first of " << lengths[0]);
      const auto rows = static_cast<int64_t>(lengths.size());
      CompareWithTorch(lengths, type, torch::randn({rows, 9, 3}).to(type).requires_grad_());
      CompareWithTorch(lengths, type, torch::randn({3, 9, rows}).to(type).transpose(0, 2).requires_grad_());
      // Windows that overlap in memory.
      CompareWithTorch(lengths, type, torch::randn({rows, 20}).to(type).unfold(1, 4, 2).detach().requires_grad_());
    }
  }
}

TEST_CASE("equally long rows stay in their order, and no rows are refused") {
  CHECK(PackingOf(torch::tensor({3, 5, 3, 5}, torch::kInt64)).rows == std::vector<int64_t>{1, 3, 0, 2});
  CHECK_THROWS_WITH(PackingOf(torch::zeros({0}, torch::kInt64)), Catch::Contains("no rows"));
}

}  // namespace
}  // namespace distill
