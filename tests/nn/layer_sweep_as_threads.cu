#include "tests/nn/layer_sweep_as_threads.h"

#include <type_traits>

#include "libdistill/nn/layer_sweep_device.cuh"

namespace distill::testing {
namespace {

// run(T(), kWide)
template <typename Run>
void Of(DType dtype, int wide, const Run& run) {
  const auto of_type = [&](auto type) {
    wide == 1 ? run(type, std::integral_constant<int, 1>()) : run(type, std::integral_constant<int, 4>());
  };
  if (dtype == DType::kFloat32) return of_type(float());
  dtype == DType::kBFloat16 ? of_type(__nv_bfloat16()) : of_type(__half());
}

// visit(thread) for each of a row.
template <typename Visit>
float SumOver(int threads, const Visit& visit) {
  float sum = 0;
  for (int thread = 0; thread < threads; ++thread) sum += visit(thread);
  return sum;
}

}  // namespace

void NormAsThreads(const NormRows& rows, int64_t count, const AsThreads& as) {
  Of(rows.dtype, as.wide, [&](auto type, auto wide) {
    using Thread = NormThread<decltype(type), wide>;
    for (int64_t row = 0; row < count; ++row) {
      const auto part = [&](int thread) { return Thread(rows, row, thread, as.threads); };
      const float squares = SumOver(as.threads, [&](int thread) { return part(thread).Squares(); });
      rows.scales[row] = part(0).ScaleOf(squares);
      for (int thread = 0; thread < as.threads; ++thread) part(thread).Put(rows.scales[row]);
    }
  });
}

void NormGradientAsThreads(const NormRows& rows, int64_t count, const AsThreads& as) {
  Of(rows.dtype, as.wide, [&](auto type, auto wide) {
    using Thread = NormThread<decltype(type), wide>;
    for (int thread = 0; thread < as.threads; ++thread) {
      if (rows.weight_gradient != nullptr) Thread(rows, 0, thread, as.threads).Clear(rows.weight_gradient);
    }
    for (int64_t row = 0; row < count; ++row) {
      const auto part = [&](int thread) { return Thread(rows, row, thread, as.threads); };
      const float products = SumOver(
          as.threads, [&](int thread) { return part(thread).Products(rows.scales[row], rows.weight_gradient); });
      for (int thread = 0; thread < as.threads; ++thread) {
        part(thread).PutGradient(rows.scales[row], products / static_cast<float>(rows.size));
      }
    }
  });
}

void GatedAsThreads(const GatedRows& rows, int64_t count, const AsThreads& as) {
  Of(rows.dtype, as.wide, [&](auto type, auto wide) {
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t i = 0; i < rows.size / wide; ++i) GateGroup<decltype(type), wide>(rows, row, i);
    }
  });
}

void GatedGradientAsThreads(const GatedRows& rows, int64_t count, const AsThreads& as) {
  Of(rows.dtype, as.wide, [&](auto type, auto wide) {
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t i = 0; i < rows.size / wide; ++i) GateGradientGroup<decltype(type), wide>(rows, row, i);
    }
  });
}

void RotateAsThreads(const RotatedRows& rows, int64_t count, const AsThreads& as) {
  Of(rows.dtype, as.wide, [&](auto type, auto wide) {
    for (int64_t row = 0; row < count; ++row) {
      for (int thread = 0; thread < as.threads; ++thread)
        RotateRow<decltype(type), wide>(rows, row, thread, as.threads);
    }
  });
}

}  // namespace distill::testing
