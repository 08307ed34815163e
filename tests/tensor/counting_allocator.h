// How much memory tensors on the CPU take, for tests that bound it.
#pragma once

#include <algorithm>
#include <atomic>

#include <c10/core/CPUAllocator.h>

namespace distill {

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

}  // namespace distill
