#include <ATen/Context.h>
#include <torch/utils.h>

#include "libdistill/loss/distillation_loss.h"
#include "libdistill/loss/loss_memory.h"
#include "tests/support/catch.h"
#include "tests/tensor/counting_allocator.h"

namespace distill {
namespace {

using torch::Tensor;

TEST_CASE("no tensor of all tokens times the vocabulary is ever alive") {
  constexpr int64_t kTokens = 2048, kVocabulary = 4096, kHidden = 16, kChunk = 64;
  constexpr size_t kChunkBytes = kChunk * kVocabulary * sizeof(float);
  constexpr size_t kLogitsBytes = kTokens * kVocabulary * sizeof(float);
  torch::manual_seed(1);
  const DistillationInputs inputs{.student_hidden = torch::randn({kTokens, kHidden}, torch::requires_grad()),
                                  .student_weight = torch::randn({kVocabulary, kHidden}, torch::requires_grad()),
                                  .student_bias = {},
                                  .teacher_hidden = torch::randn({kTokens, kHidden}),
                                  .teacher_weight = torch::randn({kVocabulary + 8, kHidden}),
                                  .teacher_bias = {},
                                  .labels = torch::randint(kVocabulary, {kTokens}, torch::kInt64)};
  DistillationOptions options{.temperature = 2.0, .alpha = 0.5, .chunk_tokens = kChunk};
  CountingAllocator allocator;
  {
    const DistillationSums sums = DistillationLoss(inputs, options);
    sums.loss.backward();
    CHECK(allocator.largest_bytes() <= kChunkBytes);
    CHECK(allocator.peak_bytes() < 8 * kChunkBytes);
  }
  inputs.student_hidden.mutable_grad().reset();
  inputs.student_weight.mutable_grad().reset();
  CHECK(allocator.alive_bytes() == 0);
  // The measure itself: the whole logits of the reference are seen.
  { ReferenceDistillationLoss(inputs, options); }
  CHECK(allocator.largest_bytes() >= kLogitsBytes);
}

TEST_CASE("a head's gradient that is added to a sum in borrowed memory takes none of its own") {
  constexpr int64_t kTokens = 64, kVocabulary = 4096, kHidden = 256, kChunk = 16;
  constexpr size_t kHeadBytes = kVocabulary * kHidden * sizeof(float);
  torch::manual_seed(1);
  const Tensor sum = torch::zeros({kVocabulary, kHidden});
  const auto peak_bytes = [&](bool borrows) {
    const DistillationInputs inputs{.student_hidden = torch::randn({kTokens, kHidden}, torch::requires_grad()),
                                    .student_weight = torch::randn({kVocabulary, kHidden}, torch::requires_grad()),
                                    .student_bias = {},
                                    .teacher_hidden = {},
                                    .teacher_weight = {},
                                    .teacher_bias = {},
                                    .labels = torch::randint(kVocabulary, {kTokens}, torch::kInt64),
                                    .student_weight_gradient = borrows ? sum : Tensor(),
                                    .adds_student_weight_gradient = borrows,
                                    .take_student_weight_gradient = [](const Tensor&) {}};
    const CountingAllocator allocator;
    DistillationLoss(inputs, {.alpha = 0, .chunk_tokens = kChunk}).loss.backward();
    for (const Tensor& leaf : {inputs.student_hidden, inputs.student_weight}) leaf.mutable_grad().reset();
    return allocator.peak_bytes();
  };
  CHECK(peak_bytes(/*borrows=*/false) > kHeadBytes);
  CHECK(peak_bytes(/*borrows=*/true) < kHeadBytes / 4);
  CHECK(sum.abs().max().item<float>() > 0);
}

TEST_CASE("of a narrow head's gradient a slice of the rows is made at once, and as much as is planned") {
  constexpr int64_t kTokens = 64, kVocabulary = 40'000, kHidden = 256, kChunk = 16;
  const auto half = torch::dtype(torch::kBFloat16);
  const auto leaf = torch::TensorOptions(half).requires_grad(true);
  torch::manual_seed(1);
  const DistillationInputs inputs{.student_hidden = torch::randn({kTokens, kHidden}, leaf),
                                  .student_weight = torch::randn({kVocabulary, kHidden}, leaf),
                                  .student_bias = {},
                                  .teacher_hidden = torch::randn({kTokens, kHidden}, half),
                                  .teacher_weight = torch::randn({kVocabulary, kHidden}, half),
                                  .teacher_bias = {},
                                  .labels = torch::randint(kVocabulary, {kTokens}, torch::kInt64),
                                  .student_weight_gradient = torch::zeros({kVocabulary, kHidden}),
                                  .adds_student_weight_gradient = true,
                                  .take_student_weight_gradient = [](const Tensor&) {}};
  const LossMemory planned = MemoryOf({.tokens = kTokens,
                                       .chunk_tokens = kChunk,
                                       .vocabulary = kVocabulary,
                                       .student_rows = kVocabulary,
                                       .student_hidden = kHidden,
                                       .teacher_hidden = kHidden,
                                       .element_bytes = 2,
                                       .is_borrowed = true});
  at::globalContext().setUserEnabledMkldnn(false);  // which takes memory in a way that the counter cannot give it
  const CountingAllocator allocator;
  DistillationLoss(inputs, {.alpha = 0.5, .chunk_tokens = kChunk}).loss.backward();
  at::globalContext().setUserEnabledMkldnn(true);
  const auto peak = static_cast<double>(allocator.peak_bytes());
  CHECK(planned.rounding_bytes < kVocabulary * kHidden * 2);
  CHECK(peak < 1.1 * static_cast<double>(planned.during_bytes()));
  CHECK(peak > 0.8 * static_cast<double>(planned.during_bytes()));
}

TEST_CASE("a chunk's logits take no more than the student's head, where they are large") {
  const auto chunk = [](int64_t tokens, int64_t vocabulary, int64_t hidden, int64_t element_bytes = 4) {
    return ChunkTokens({.tokens = tokens,
                        .chunk_tokens = 256,
                        .vocabulary = vocabulary,
                        .student_hidden = hidden,
                        .teacher_hidden = 512,
                        .element_bytes = element_bytes});
  };
  CHECK(chunk(1024, 151936, 256) == 128);
  CHECK(chunk(1024, 151936, 256, 2) == 128);  // 138, in chunks that are alike
  CHECK(chunk(4096, 151936, 512) == 256);     // as many as are asked for
  CHECK(chunk(1024, 30000, 64) == 256);       // small anyway
  CHECK(chunk(1024, 200'000'000, 1) == 1);
  CHECK(chunk(257, 1000, 64) == 129);
  CHECK(chunk(3, 1000, 64) == 3);
  CHECK(chunk(0, 1000, 64) == 0);
}

}  // namespace
}  // namespace distill
