#include <torch/utils.h>

#include "libdistill/loss/distillation_loss.h"
#include "tests/support/catch.h"
#include "tests/tensor/counting_allocator.h"

namespace distill {
namespace {

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

}  // namespace
}  // namespace distill
