// The head's products by cuBLAS beside LibTorch's, on a GPU; head_products_cublas_test.cc and wide_head_test.cc have
// all that needs none.
#include "libdistill/loss/head_products.h"

#include <ATen/Context.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <cstdio>

#include "libdistill/loss/distillation_loss.h"
#include "libdistill/loss/head_products_cublas.h"
#include "libdistill/loss/loss_memory.h"
#include "libdistill/loss/sweep_cuda.h"
#include "libdistill/tensor/peak_memory.h"
#include "tests/support/catch.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

bool HasGpu() {
  if (torch::cuda::is_available() &&
      HasWideProducts(torch::empty({1, 1}, torch::dtype(torch::kFloat16).device(at::kCUDA)))) {
    return true;
  }
  std::printf("skipped: no GPU with tensor cores here, or a build without CUDA\n");
  return false;
}

TEST_CASE("the cuBLAS that comes with LibTorch is found, and has the functions that are looked up") {
  if (!HasCudaSweep()) return static_cast<void>(std::printf("left out: a build without CUDA\n"));
  CHECK(CheckCublasLt().ToString() == "OK");
}

Tensor Random(c10::IntArrayRef sizes, torch::Dtype dtype) { return torch::randn(sizes).to(at::kCUDA, dtype); }

TEST_CASE("cuBLAS's products are the float32 ones of the same numbers, and LibTorch's before they are rounded",
          "[on_gpu]") {
  if (!HasGpu()) return;
  torch::manual_seed(5);
  for (const torch::Dtype dtype : {torch::kBFloat16, torch::kFloat16}) {
    if (!HasWideProducts(torch::empty({1, 1}, torch::dtype(dtype).device(at::kCUDA)))) continue;
    constexpr double kRounding = 1.0 / 128, kSums = 1e-4;  // of narrow results, of float32 sums on tensor cores
    for (const int64_t tokens : {1, 7, 128, 1000}) {
      for (const int64_t vocabulary : {1, 17, 1000, 32000, 50257}) {
        for (const int64_t width : {8, 65, 768}) {
          INFO(dtype << ", " << tokens << " tokens, " << vocabulary << " words, " << width << " wide");
          const Tensor hidden = Random({tokens, width}, dtype), weight = Random({vocabulary, width}, dtype);
          const Tensor rows = torch::full({tokens, WideRowStride(vocabulary)}, 7.0f, at::kCUDA);
          const Tensor logits = rows.narrow(1, 0, vocabulary),
                       behind = rows.narrow(1, vocabulary, rows.size(1) - vocabulary);
          WideMultiply(hidden, weight.t(), /*adds=*/false, logits);
          CHECK(RelativeError(logits, hidden.to(torch::kFloat64).mm(weight.to(torch::kFloat64).t())) < kSums);
          CHECK(RelativeError(hidden.mm(weight.t()), logits) < kRounding);
          CHECK(behind.eq(7).all().item<bool>());
          // As the gradient lies: in the front of the rows.
          const Tensor narrow = rows.view(dtype).narrow(1, 0, vocabulary);
          narrow.copy_(logits.clone());
          const Tensor expected = narrow.to(torch::kFloat64).t().mm(hidden.to(torch::kFloat64));
          const Tensor sum = torch::full({vocabulary, width}, NAN, at::kCUDA);
          WideMultiply(narrow.t(), hidden, /*adds=*/false, sum);
          CHECK(RelativeError(sum, expected) < kSums);
          WideMultiply(narrow.t(), hidden, /*adds=*/true, sum);
          CHECK(RelativeError(sum, 2 * expected) < kSums);
        }
      }
    }
  }
}

// Addresses that are multiples of an element's size and of nothing more.
TEST_CASE("odd shapes are multiplied on a GPU wherever they lie", "[on_gpu]") {
  if (!HasGpu()) return;
  torch::manual_seed(6);
  constexpr int64_t kTokens = 33, kVocabulary = 1001, kWidth = 65;
  const auto shifted = [](const Tensor& tensor) {
    const Tensor room = torch::empty({tensor.numel() + 1}, tensor.options());
    return room.narrow(0, 1, tensor.numel()).view(tensor.sizes()).copy_(tensor);
  };
  for (const torch::Dtype dtype : {torch::kBFloat16, torch::kFloat16}) {
    if (!HasWideProducts(torch::empty({1, 1}, torch::dtype(dtype).device(at::kCUDA)))) continue;
    INFO(dtype);
    const Tensor hidden = shifted(Random({kTokens, kWidth}, dtype)),
                 gradient = shifted(Random({kTokens, kVocabulary}, dtype));
    const Tensor sum = shifted(torch::full({kVocabulary, kWidth}, NAN, at::kCUDA));
    const Tensor expected = gradient.to(torch::kFloat64).t().mm(hidden.to(torch::kFloat64));
    WideMultiply(gradient.t(), hidden, /*adds=*/false, sum);
    CHECK(RelativeError(sum, expected) < 1.0 / 128);  // LibTorch's where cuBLAS knows no way
    WideMultiply(gradient.t(), hidden, /*adds=*/true, sum);
    CHECK(RelativeError(sum, 2 * expected) < 1.0 / 128);
  }
}

TEST_CASE("a narrow head's loss on a GPU takes what is planned, and the same bits come twice", "[on_gpu]") {
  if (!HasGpu()) return;
  constexpr int64_t kTokens = 1024, kChunk = 256, kVocabulary = 100'003, kHidden = 2048;
  const auto half = torch::dtype(torch::kFloat16).device(at::kCUDA);
  const c10::Device device(at::kCUDA, 0);
  DistillationInputs inputs{.student_hidden = torch::randn({kTokens, kHidden}, half).mul_(0.1).requires_grad_(),
                            .student_weight = torch::randn({kVocabulary, kHidden}, half).mul_(0.1).requires_grad_(),
                            .student_bias = {},
                            .teacher_hidden = torch::randn({kTokens, kHidden}, half),
                            .teacher_weight = torch::randn({kVocabulary, kHidden}, half).mul_(0.1),
                            .teacher_bias = {},
                            .labels = torch::randint(kVocabulary, {kTokens}, torch::kInt64).to(device),
                            .student_weight_gradient = torch::zeros({kVocabulary, kHidden}, device),
                            .take_student_weight_gradient = [](const Tensor&) {}};
  const LossMemory planned = MemoryOf({.tokens = kTokens,
                                       .chunk_tokens = kChunk,
                                       .vocabulary = kVocabulary,
                                       .student_rows = kVocabulary,
                                       .student_hidden = kHidden,
                                       .teacher_hidden = kHidden,
                                       .element_bytes = 2,
                                       .on_gpu = true,
                                       .is_borrowed = true});
  const auto loss = [&] { return DistillationLoss(inputs, {.chunk_tokens = kChunk}).loss.item<float>(); };
  const float first = loss();
  const Tensor gradient = inputs.student_weight_gradient.clone();
  ResetPeakMemory(device);
  const int64_t before = PeakMemoryBytes(device);
  CHECK(loss() == first);
  CHECK(torch::equal(inputs.student_weight_gradient, gradient));
  // LibTorch's own products have a workspace besides; a copy of the head's gradient would take 410 MB.
  CHECK(PeakMemoryBytes(device) - before < planned.during_bytes() + (100 << 20));
}

}  // namespace
}  // namespace distill
