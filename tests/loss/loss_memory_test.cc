#include <algorithm>
#include <atomic>

#include <c10/core/CPUAllocator.h>
#include <torch/utils.h>

#include "libdistill/loss/distillation_loss.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// Torch's own allocator, with a note of the largest block and of the most bytes alive at one time.
class CountingAllocator : public c10::Allocator {
 public:
  CountingAllocator() : inner_(c10::GetDefaultCPUAllocator()) { c10::SetCPUAllocator(this); }
  ~CountingAllocator() override { c10::SetCPUAllocator(inner_); }

  c10::DataPtr allocate(size_t bytes) override {
    const size_t alive = alive_bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_.load(), alive);
    largest_bytes_ = std::max(largest_bytes_.load(), bytes);
    c10::DataPtr inner = inner_->allocate(bytes);
    void* data = inner.get();
    auto* block = new Block{std::move(inner), bytes, this};
    return {data, block, &Delete, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  size_t largest_bytes() const { return largest_bytes_; }
  size_t peak_bytes() const { return peak_bytes_; }
  size_t alive_bytes() const { return alive_bytes_; }

 private:
  struct Block {
    c10::DataPtr data;
    size_t bytes;
    CountingAllocator* owner;
  };
  static void Delete(void* pointer) {
    auto* block = static_cast<Block*>(pointer);
    block->owner->alive_bytes_ -= block->bytes;
    delete block;
  }

  c10::Allocator* const inner_;
  std::atomic<size_t> alive_bytes_{0}, peak_bytes_{0}, largest_bytes_{0};
};

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
