#include "libdistill/tensor/large_pages.h"

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <cstdint>

namespace distill {
namespace {

constexpr uintptr_t kPage = 2 << 20;
// glibc maps these one by one, and gives them back to the system when they are freed (world/process.h).
constexpr size_t kLarge = 32 << 20;

void AskForLargePages([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#if defined(MADV_HUGEPAGE)
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kPage - 1) / kPage * kPage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / kPage * kPage;
  // Refused where the kernel has none: then it stays as it is.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

// LibTorch's own, but for the advice.
class LargePageAllocator : public c10::Allocator {
 public:
  explicit LargePageAllocator(c10::Allocator* within) : within_(within) {}

  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr data = within_->allocate(bytes);
    if (bytes >= kLarge) AskForLargePages(data.get(), bytes);
    return data;
  }
  c10::DeleterFnPtr raw_deleter() const override { return within_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override { within_->copy_data(to, from, bytes); }

 private:
  c10::Allocator* const within_;
};

}  // namespace

void UseLargePages() {
  static LargePageAllocator allocator(c10::GetCPUAllocator());
  c10::SetCPUAllocator(&allocator);
}

}  // namespace distill
