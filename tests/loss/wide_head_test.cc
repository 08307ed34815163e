// The loss with float32 products of narrow heads, as GPUs have them, on the CPU: this program has products of its own
// in the place of cuBLAS's (head_products_cublas.h), which the linker takes before the library's. All else is what a
// GPU runs, but the sweep, for which SweepTensors stands in (sweep_device_test.cc has the GPU's).
#include <ATen/Context.h>
#include <torch/utils.h>

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "libdistill/loss/chunk_products.h"
#include "libdistill/loss/head_products.h"
#include "libdistill/loss/head_products_cublas.h"
#include "libdistill/loss/loss_memory.h"
#include "tests/loss/compare_losses.h"
#include "tests/support/catch.h"
#include "tests/tensor/counting_allocator.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

// How often there were products that add to what is there, and such that do not.
struct Products {
  int64_t adding = 0, writing = 0;
  bool fails = false, are_there = true, know_a_way = true;
} products;

float ValueAt(const NarrowMatrix& matrix, DType dtype, int64_t row, int64_t column) {
  if (matrix.is_transposed) std::swap(row, column);
  const int64_t at = row * matrix.stride + column;
  if (dtype == DType::kFloat16) return static_cast<const at::Half*>(matrix.values)[at];
  return static_cast<const at::BFloat16*>(matrix.values)[at];
}

}  // namespace

absl::Status CheckCublasLt() { return absl::UnimplementedError("not here"); }

absl::Status CheckWideProducts(DType dtype, int device) {
  const bool is_narrow = dtype == DType::kBFloat16 || dtype == DType::kFloat16;
  return is_narrow && device < 0 && products.are_there ? absl::OkStatus() : absl::UnimplementedError("not here");
}

absl::Status EnqueueWideProduct(const WideProduct& product, int /*device*/, void* /*stream*/) {
  if (!products.know_a_way) return absl::UnimplementedError("cublasLtMatmulAlgoGetHeuristic: what the fake has not");
  if (products.fails) return absl::InternalError("cublasLtMatmul: what the fake met");
  ++(product.adds ? products.adding : products.writing);
  for (int64_t row = 0; row < product.rows; ++row) {
    for (int64_t column = 0; column < product.columns; ++column) {
      float sum = 0;
      for (int64_t i = 0; i < product.depth; ++i) {
        sum += ValueAt(product.a, product.dtype, row, i) * ValueAt(product.b, product.dtype, i, column);
      }
      float& out = product.out[row * product.out_stride + column];
      out = product.adds ? out + sum : sum;
    }
  }
  return absl::OkStatus();
}

namespace {

using testing::CheckSame;
using testing::Evaluate;
using testing::InFloat64;
using testing::MakeInputs;
using testing::Result;

TEST_CASE("narrow heads with float32 products give what the reference gives") {
  int64_t turn = 0;  // what is not crossed takes turns
  for (const torch::Dtype dtype : {torch::kBFloat16, torch::kFloat16}) {
    for (const int64_t vocabulary : {1, 17, 300}) {
      for (const Divergence divergence :
           {Divergence::kForwardKl, Divergence::kReverseKl, Divergence::kJensenShannon, Divergence::kMse}) {
        for (const int64_t padded : {0, 3}) {
          const int64_t of_student = turn % 2 == 0 ? padded : 0;
          DistillationInputs inputs =
              MakeInputs({7, 16, 8, vocabulary + of_student, vocabulary + padded - of_student, turn % 3 == 0}, dtype,
                         torch::kCPU, 0.5);
          inputs.student_logits = {.scale = 0.5, .softcap = turn % 4 == 0 ? 5.0 : 0.0};
          if (turn % 3 == 1) inputs.labels.narrow(0, 2, 3).fill_(-100);
          const DistillationOptions options{.temperature = 1.0 + static_cast<double>(turn % 3),
                                            .alpha = turn % 5 == 0 ? 1.0 : 0.5,
                                            .beta = divergence == Divergence::kJensenShannon ? 0.3 : 0.0,
                                            .divergence = divergence,
                                            .chunk_tokens = 1 + turn % 7,
                                            .gradient_scale = dtype == torch::kFloat16 ? 1024.0 : 1.0};
          INFO(dtype << ", " << vocabulary << " words, " << testing::NameOf(options) << ", turn " << turn);
          CheckSame(inputs, options, dtype == torch::kBFloat16 ? 2e-2 : 3e-3);
          ++turn;
        }
      }
    }
  }
  CHECK(products.adding > 0);
}

TEST_CASE("logits are not rounded, as LibTorch's are") {
  const DistillationInputs inputs = MakeInputs({32, 64, 64, 257, 257}, torch::kBFloat16, torch::kCPU, 0.5);
  const DistillationInputs wide = InFloat64(inputs);
  const Tensor exact = wide.student_hidden.mm(wide.student_weight.t());
  for (const bool are_there : {true, false}) {
    products.are_there = are_there;
    const Head head(inputs.student_weight, {}, {}, /*vocabulary=*/257, /*chunk=*/32);
    const double error = RelativeError(head.Products(inputs.student_hidden).values, exact);
    CHECK(are_there == head.is_wide());
    CHECK((are_there ? error < 1e-6 : error > 5e-4));
  }
  products.are_there = true;
}

TEST_CASE("the loss of a narrow head is that of its float64 copy, to float32's rounding") {
  const DistillationInputs inputs = MakeInputs({32, 64, 64, 257, 257}, torch::kBFloat16, torch::kCPU, 0.5);
  for (const double alpha : {0.0, 0.5, 1.0}) {
    const DistillationOptions options{.alpha = alpha, .chunk_tokens = 8};
    const Result ours = Evaluate(DistillationLoss, inputs, options);
    const Result exact = Evaluate(ReferenceDistillationLoss, InFloat64(inputs), options);
    CHECK(RelativeError(ours.sums.loss, exact.sums.loss) < 1e-5);
    CHECK(RelativeError(ours.gradients[1], exact.gradients[1]) < 4e-3);
  }
}

TEST_CASE("the head's gradient is summed up in float32 by the products themselves, the first of which writes it") {
  constexpr int64_t kTokens = 20, kHidden = 16, kVocabulary = 40;
  torch::manual_seed(3);
  const Tensor memory = torch::full({kVocabulary, kHidden}, NAN);
  DistillationInputs inputs =
      MakeInputs({kTokens, kHidden, 8, kVocabulary, kVocabulary}, torch::kBFloat16, torch::kCPU);
  const Result exact = Evaluate(ReferenceDistillationLoss, InFloat64(inputs), {});
  inputs.student_hidden.requires_grad_();
  inputs.student_weight.requires_grad_();
  Tensor taken;
  inputs.student_weight_gradient = memory;
  inputs.take_student_weight_gradient = [&](const Tensor& gradient) { taken = gradient; };
  products = {};
  DistillationLoss(inputs, {.chunk_tokens = 5}).loss.backward();
  CHECK(products.writing == 2 * 4 + 1);  // logits of both models in four chunks, and the first of the gradient
  CHECK(products.adding == 3);
  CHECK(taken.data_ptr() == memory.data_ptr());
  // G is rounded to bfloat16, the sum of its products is not.
  CHECK(RelativeError(taken, exact.gradients[1]) < 4e-3);
  const Tensor once = taken.clone();
  inputs.adds_student_weight_gradient = true;
  products = {};
  DistillationLoss(inputs, {.chunk_tokens = 5}).loss.backward();
  CHECK(products.adding == 4);
  CHECK(RelativeError(taken, 2 * once) < 1e-6);
}

TEST_CASE("two buffers of float32 logits are all that a chunk takes, as planned") {
  constexpr int64_t kTokens = 64, kVocabulary = 4001, kHidden = 256, kChunk = 16;
  torch::manual_seed(1);
  DistillationInputs inputs =
      MakeInputs({kTokens, kHidden, 8, kVocabulary, kVocabulary}, torch::kBFloat16, torch::kCPU);
  inputs.student_weight.requires_grad_();
  inputs.student_weight_gradient = torch::zeros({kVocabulary, kHidden});
  inputs.adds_student_weight_gradient = true;
  inputs.take_student_weight_gradient = [](const Tensor&) {};
  const LossMemory planned = MemoryOf({.tokens = kTokens,
                                       .chunk_tokens = kChunk,
                                       .vocabulary = kVocabulary,
                                       .student_rows = kVocabulary,
                                       .student_hidden = kHidden,
                                       .teacher_hidden = 8,
                                       .element_bytes = 2,
                                       .on_gpu = true,
                                       .is_borrowed = true});
  CHECK(planned.chunk_bytes == 2 * kChunk * WideRowStride(kVocabulary) * 4);
  CHECK(planned.rounding_bytes == 0);
  CHECK(planned.workspace_bytes == kProductWorkspaceBytes);
  // Head and products alone, since SweepTensors takes more than a GPU's sweep.
  const CountingAllocator allocator;
  {
    const torch::NoGradGuard no_grad;
    const Head student(inputs.student_weight, {}, {}, kVocabulary, kChunk);
    const TeacherChunks teacher(inputs, 1, kVocabulary, kChunk, /*has_tail=*/false);
    for (int64_t first = 0; first < kTokens; first += kChunk) {
      const Tensor hidden = inputs.student_hidden.narrow(0, first, kChunk);
      const ChunkProducts of_student = student.Products(hidden), of_teacher = teacher.Products(first, kChunk);
      CHECK(of_student.values.scalar_type() == torch::kFloat32);
      CHECK(of_teacher.values.scalar_type() == torch::kFloat32);
      of_student.gradient().copy_(of_student.values);
      WideMultiply(of_student.gradient().t(), hidden, /*adds=*/true, inputs.student_weight_gradient);
    }
  }
  CHECK(static_cast<int64_t>(allocator.peak_bytes()) <= planned.chunk_bytes + planned.workspace_bytes + (64 << 10));
}

TEST_CASE("where cuBLAS knows no way products are LibTorch's, rounded, and are added up in float32 nevertheless") {
  DistillationInputs inputs = MakeInputs({20, 15, 7, 41, 41}, torch::kBFloat16, torch::kCPU, 0.5);
  const DistillationOptions options{.chunk_tokens = 6};
  const Result exact = Evaluate(ReferenceDistillationLoss, InFloat64(inputs), options);
  inputs.student_hidden.requires_grad_();
  inputs.student_weight.requires_grad_();
  Tensor taken;
  inputs.student_weight_gradient = torch::full({41 * 15 + 1}, NAN).narrow(0, 1, 41 * 15).view({41, 15});
  inputs.take_student_weight_gradient = [&](const Tensor& gradient) { taken = gradient; };
  products = {.know_a_way = false};
  const Tensor loss = DistillationLoss(inputs, options).loss;
  loss.backward();
  CHECK(products.adding + products.writing == 0);
  products = {};
  CHECK(RelativeError(loss.detach(), exact.sums.loss) < 1e-2);
  CHECK(RelativeError(taken, exact.gradients[1]) < 3e-2);
}

TEST_CASE("a product that fails says which, and where") {
  const DistillationInputs inputs = MakeInputs({3, 4, 4, 9, 9}, torch::kBFloat16, torch::kCPU);
  products.fails = true;
  std::string message;
  try {
    DistillationLoss(inputs, {});
  } catch (const c10::Error& error) {
    message = error.what_without_backtrace();
  }
  products.fails = false;
  CHECK(absl::StrContains(message, "the head's product on cpu failed: cublasLtMatmul: what the fake met"));
}

}  // namespace
}  // namespace distill
