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

TEST_CASE("chunks that nobody chose are those of 256 tokens on CPUs, to the bit") {
  for (const int64_t tokens : {0, 1, 255, 257, 1024, 4096}) {
    for (const int64_t vocabulary : {1000, 30000, 151936}) {
      for (const int64_t hidden : {64, 256, 4096}) {
        for (const int64_t element_bytes : {2, 4, 8}) {
          LossShape shape{.tokens = tokens,
                          .chunk_tokens = 256,
                          .vocabulary = vocabulary,
                          .student_hidden = hidden,
                          .teacher_hidden = 512,
                          .element_bytes = element_bytes};
          const int64_t asked = ChunkTokens(shape);
          shape.chunk_tokens = 0;
          CHECK(ChunkTokens(shape) == asked);
          shape.device_bytes = int64_t{16} << 30;
          CHECK(ChunkTokens(shape) == asked);
        }
      }
    }
  }
  torch::manual_seed(1);
  const DistillationInputs inputs{.student_hidden = torch::randn({700, 16}),
                                  .student_weight = torch::randn({500, 16}),
                                  .student_bias = {},
                                  .teacher_hidden = torch::randn({700, 16}),
                                  .teacher_weight = torch::randn({500, 16}),
                                  .teacher_bias = {},
                                  .labels = torch::randint(500, {700}, torch::kInt64)};
  CHECK(torch::equal(DistillationLoss(inputs, {}).loss, DistillationLoss(inputs, {.chunk_tokens = 256}).loss));
}

TEST_CASE("on GPUs chunks are as long as products want, within a share of the memory") {
  constexpr int64_t kGiB = int64_t{1} << 30;
  LossShape shape{.tokens = 8192,
                  .vocabulary = 128256,
                  .student_rows = 128256,
                  .student_hidden = 4096,
                  .teacher_hidden = 8192,
                  .element_bytes = 2,
                  .on_gpu = true};
  const auto chunk = [&](int64_t asked, int64_t vocabulary, int64_t device_bytes, int64_t tokens = 8192) {
    shape.chunk_tokens = asked, shape.vocabulary = vocabulary, shape.device_bytes = device_bytes, shape.tokens = tokens;
    return ChunkTokens(shape);
  };
  CHECK(chunk(0, 128256, 80 * kGiB) == 1024);
  CHECK(chunk(0, 128256, 0) == 1024);         // nobody knows the GPU
  CHECK(chunk(0, 128256, 15 * kGiB) == 911);  // 1006 MB / 1.03 MB a token are 981, in nine chunks that are alike
  CHECK(chunk(0, 262144, 15 * kGiB) == 456);  // 480
  CHECK(chunk(0, 4'000'000, 15 * kGiB) == 128);
  CHECK(chunk(0, 30522, 15 * kGiB) == 1024);
  CHECK(chunk(0, 128256, 80 * kGiB, 1100) == 550);
  CHECK(chunk(0, 128256, 80 * kGiB, 5) == 5);
  CHECK(chunk(0, 128256, 80 * kGiB, 0) == 0);
  // Who asks gets it, and no more memory is looked at.
  CHECK(chunk(4096, 128256, 15 * kGiB) == 4096);
  CHECK(chunk(100, 128256, 80 * kGiB) == 100);  // 82 chunks of 99.9
  shape.element_bytes = 4;
  CHECK(chunk(0, 128256, 80 * kGiB) == 256);
  CHECK(chunk(0, 262144, 8 * kGiB) == 256);
  CHECK(chunk(0, 1'000'000, 8 * kGiB) == 128);
}

TEST_CASE("a chunk on a GPU takes both models' float32 logits and no copy of the head's gradient") {
  LossShape shape{.tokens = 8192,
                  .vocabulary = 50257,
                  .student_rows = 50257,
                  .student_hidden = 1024,
                  .teacher_hidden = 2048,
                  .element_bytes = 2,
                  .on_gpu = true,
                  .is_borrowed = true};
  const LossMemory narrow = MemoryOf(shape);
  CHECK(WideRowStride(50257) == 50272);  // 128 bytes are 32 floats
  CHECK(WideRowStride(128256) == 128256);
  CHECK(narrow.chunk_bytes == int64_t{2} * 1024 * 50272 * 4);
  CHECK(narrow.rounding_bytes == 0);
  CHECK(narrow.workspace_bytes == int64_t{32} << 20);
  CHECK(narrow.gradient_bytes == int64_t{8192} * 1024 * 2);
  CHECK(narrow.during_bytes() ==
        narrow.chunk_bytes + narrow.workspace_bytes + narrow.gradient_bytes + narrow.teacher_bytes);
  shape.has_wide_products = false;
  const LossMemory rounded = MemoryOf(shape);
  CHECK(rounded.chunk_bytes == int64_t{2} * 1024 * 50257 * 2);
  CHECK(rounded.rounding_bytes == int64_t{50257} * 1024 * 2);
  CHECK(rounded.workspace_bytes == 0);
  shape.trains_head = false;
  CHECK(MemoryOf(shape).rounding_bytes == 0);
  shape.trains_head = true;
  shape.device_bytes = int64_t{2} << 30;
  const int64_t tokens = ChunkTokens(shape);
  CHECK(tokens < 1024);
  shape.has_wide_products = true;
  CHECK(ChunkTokens(shape) == tokens);  // how tokens are cut does not depend on it
  shape.device_bytes = 0;
  shape.element_bytes = 4;
  const LossMemory wide = MemoryOf(shape);
  CHECK(wide.chunk_bytes == int64_t{2} * 256 * 50257 * 4);
  CHECK(wide.workspace_bytes == 0);
  shape.element_bytes = 2;
  shape.on_gpu = false;
  CHECK(MemoryOf(shape).rounding_bytes > 0);
  CHECK(MemoryOf(shape).workspace_bytes == 0);
}

}  // namespace
}  // namespace distill
