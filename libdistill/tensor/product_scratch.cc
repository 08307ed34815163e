#include "libdistill/tensor/product_scratch.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

namespace distill {
namespace {

// The most bytes that tensors take together while it lives, of those made since.
class MostBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*data*/, int64_t bytes, size_t, size_t, c10::Device) override {
    const int64_t now = now_ += bytes;  // below 0 when memory is given back
    for (int64_t so_far = most_; now > so_far && !most_.compare_exchange_weak(so_far, now);) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t most() const { return most_; }

 private:
  std::atomic<int64_t> now_{0}, most_{0};
};

int64_t MeasureScratch(c10::ScalarType dtype, int64_t rows, int64_t in, int64_t out) {
  const at::TensorOptions options(dtype);
  const at::Tensor left = at::ones({rows, in}, options), right = at::ones({out, in}, options).t();
  (void)at::mm(left, right);  // the first product may make what all later ones use
  const auto most = std::make_shared<MostBytes>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, most);
  const at::Tensor product = at::mm(left, right);
  return std::max<int64_t>(0, most->most() - static_cast<int64_t>(product.nbytes()));
}

int64_t ScratchOf(c10::ScalarType dtype, int64_t rows, int64_t in, int64_t out) {
  constexpr int64_t kMost = 2048;
  static std::mutex mutex;
  static auto* const known = new std::map<std::tuple<c10::ScalarType, int64_t, int64_t, int64_t>, int64_t>();
  const int64_t some_rows = std::min(rows, kMost), some_out = std::min(out, kMost);
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [found, is_new] = known->try_emplace({dtype, some_rows, std::min(in, kMost), some_out});
  if (is_new) found->second = MeasureScratch(dtype, some_rows, std::min(in, kMost), some_out);
  // A copy of the result grows with it; what a kernel packs are blocks.
  const int64_t copy = some_rows * some_out * static_cast<int64_t>(sizeof(float));
  return found->second >= copy ? found->second / some_rows * rows / some_out * out : found->second;
}

}  // namespace

ProductScratch ScratchOnCpu(c10::ScalarType dtype) {
  constexpr int64_t kSmall = 64;
  // Where small products take nothing, as those of float32, none do; and without instructions larger ones take long.
  if (dtype == at::kFloat || MeasureScratch(dtype, kSmall, kSmall, kSmall) == 0) return nullptr;
  return [dtype](int64_t rows, int64_t in, int64_t out) { return ScratchOf(dtype, rows, in, out); };
}

}  // namespace distill
