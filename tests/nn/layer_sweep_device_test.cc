// The arithmetic of the layers' kernels on the CPU; layer_sweep_gpu_test.cc has the kernels themselves.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/nn/layer_sweep_as_threads.h"
#include "tests/nn/swept_values.h"
#include "tests/support/catch.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using testing::AsThreads;
using torch::Tensor;

// One thread, some that do not divide what there is, a warp and a block, whose last threads have nothing.
constexpr int kThreads[] = {1, 5, 32, 256};

// Those that groups of `wide` divide.
std::vector<int64_t> SizesFor(int wide) {
  return wide == 1 ? std::vector<int64_t>{1, 2, 3, 7, 31, 33, 96, 1001}
                   : std::vector<int64_t>{4, 8, 60, 96, 1024, 1028};
}

template <typename Visit>
void ForGrid(const Visit& visit) {
  for (const SweptType& type : kSweptTypes) {
    for (const int wide : {1, 4}) {
      for (const int64_t size : SizesFor(wide)) {
        for (const int threads : kThreads) {
          INFO(NameOf(type.ours) << ", " << size << " by " << wide << ", " << threads << " threads");
          visit(type, size, AsThreads{wide, threads});
        }
      }
    }
  }
}

NormRows RowsOf(const SweptType& type, NormKind kind, const Tensor& x, const Tensor& weight, const Tensor& scales) {
  return {.dtype = type.ours,
          .size = x.size(1),
          .input = x.const_data_ptr(),
          .weight = weight.const_data_ptr(),
          .scales = scales.mutable_data_ptr<float>(),
          .epsilon = static_cast<float>(kSweptEpsilon),
          .rounds = kind == NormKind::kRounded,
          .offset = kind == NormKind::kPlusOne ? 1.0F : 0.0F};
}

TEST_CASE("the norm's threads give what float64 gives, and its gradients") {
  torch::manual_seed(1);
  ForGrid([](const SweptType& type, int64_t size, const AsThreads& as) {
    for (const NormKind kind : {NormKind::kRounded, NormKind::kWide, NormKind::kPlusOne}) {
      const Tensor x = DrawnValues({3, size}, type.torch, 4), w = DrawnValues({size}, type.torch),
                   g = DrawnValues({3, size}, type.torch);
      Tensor scales = torch::empty({3}), out = torch::empty_like(x), of_x = torch::empty_like(x),
             of_w = torch::full({size}, NAN);
      NormRows rows = RowsOf(type, kind, x, w, scales);
      rows.output = out.mutable_data_ptr();
      rows.gradient = g.const_data_ptr();
      rows.input_gradient = of_x.mutable_data_ptr();
      rows.weight_gradient = of_w.mutable_data_ptr<float>();
      testing::NormAsThreads(rows, 3, as);
      testing::NormGradientAsThreads(rows, 3, as);
      const Differentiated expected = NormInFloat64(x, w, g, kind);
      CHECK(RelativeError(out, expected.output) < type.tolerance);
      // In short rows what is left of the gradient may be the small difference of two numbers, and of one element is.
      if (size > 1) CHECK(RelativeError(of_x, expected.of_first) < (size < 8 ? 50 : 1) * type.tolerance);
      CHECK(RelativeError(of_w, expected.of_second) < 2e-6);
    }
  });
}

// Where the last bit of a float32 differs, so may a rounded number, one in hundreds; another order of rounding changes
// every third.
double PartThatDiffers(const Tensor& a, const Tensor& b) { return a.ne(b).to(torch::kFloat64).mean().item<double>(); }

TEST_CASE("the norm's threads round where the tensor operations do, each kind in its way") {
  torch::manual_seed(2);
  for (const SweptType& type : {kSweptTypes[1], kSweptTypes[2]}) {
    for (const NormKind kind : {NormKind::kRounded, NormKind::kWide, NormKind::kPlusOne}) {
      const Tensor x = DrawnValues({64, 1024}, type.torch), w = DrawnValues({1024}, type.torch);
      Tensor scales = torch::empty({64}), out = torch::empty_like(x);
      NormRows rows = RowsOf(type, kind, x, w, scales);
      rows.output = out.mutable_data_ptr();
      testing::NormAsThreads(rows, 64, {4, 32});
      const auto reference = [&](NormKind by) { return RmsNormReference(x, w, kSweptEpsilon, by); };
      CHECK(PartThatDiffers(out, reference(kind)) < 0.01);
      if (kind == NormKind::kRounded) CHECK(PartThatDiffers(out, reference(NormKind::kWide)) > 0.1);
      if (kind == NormKind::kWide) CHECK(PartThatDiffers(out, reference(NormKind::kRounded)) > 0.1);
    }
  }
}

TEST_CASE("the gated unit's threads give what float64 gives, also where exponentials overflow") {
  torch::manual_seed(3);
  ForGrid([](const SweptType& type, int64_t size, const AsThreads& as) {
    const double far = type.ours == DType::kFloat16 ? 1e3 : 1e4;  // float16 holds no product of the latter
    for (const double deviation : {0.01, 2.0, 60.0, far}) {
      for (const GateKind kind : {GateKind::kSilu, GateKind::kGeluTanh}) {
        INFO("gates " << deviation << " from 0");
        const Tensor both = DrawnValues({3, 2 * size}, type.torch), gradients = torch::empty_like(both);
        const Tensor gate = both.narrow(1, 0, size).mul_(deviation), up = both.narrow(1, size, size),
                     of_gate = gradients.narrow(1, 0, size), of_up = gradients.narrow(1, size, size);
        const Tensor g = DrawnValues({3, size}, type.torch);
        Tensor out = torch::empty_like(g);
        const GatedRows rows = {.dtype = type.ours,
                                .is_gelu = kind == GateKind::kGeluTanh,
                                .size = size,
                                .gate = gate.const_data_ptr(),
                                .up = up.const_data_ptr(),
                                .row_stride = 2 * size,
                                .output = out.mutable_data_ptr(),
                                .gradient = g.const_data_ptr(),
                                .gate_gradient = of_gate.mutable_data_ptr(),
                                .up_gradient = of_up.mutable_data_ptr()};
        testing::GatedAsThreads(rows, 3, as);
        testing::GatedGradientAsThreads(rows, 3, as);
        const Differentiated expected = GatedInFloat64(gate, up, g, kind);
        // Rounding x changes e^x by x 2^-24.
        const double tolerance = type.tolerance + std::min(88.0, InFloat64(gate).abs().max().item<double>()) * 0x1p-24;
        CHECK(AreNear(out, expected.output, tolerance));
        CHECK(AreNear(of_gate, expected.of_first, tolerance));
        CHECK(AreNear(of_up, expected.of_second, tolerance));
      }
    }
  });
}

// Where tanh is so near -1 that 1 + tanh has few digits left, or, in float64 too, not enough to compare with.
Tensor GateBySigmoid(const Tensor& x, GateKind kind) {
  if (kind == GateKind::kSilu) return x * torch::sigmoid(x);
  return x * torch::sigmoid(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}

TEST_CASE("gates far below 0 are near float64 each by itself, and so are their gradients") {
  constexpr int64_t kSize = 1000;
  for (const GateKind kind : {GateKind::kSilu, GateKind::kGeluTanh}) {
    const Tensor gate = torch::linspace(-6, -3, kSize), up = torch::ones({kSize}), g = torch::ones({kSize});
    Tensor out = torch::empty({kSize}), of_gate = torch::empty({kSize}), of_up = torch::empty({kSize});
    const GatedRows rows = {.is_gelu = kind == GateKind::kGeluTanh,
                            .size = kSize,
                            .gate = gate.const_data_ptr(),
                            .up = up.const_data_ptr(),
                            .row_stride = kSize,
                            .output = out.mutable_data_ptr(),
                            .gradient = g.const_data_ptr(),
                            .gate_gradient = of_gate.mutable_data_ptr(),
                            .up_gradient = of_up.mutable_data_ptr()};
    testing::GatedAsThreads(rows, 1, {4, 32});
    testing::GatedGradientAsThreads(rows, 1, {4, 32});
    const Differentiated expected =
        Differentiate(InFloat64(gate), InFloat64(up), InFloat64(g),
                      [&](const auto& a, const auto& b) { return GateBySigmoid(a, kind) * b; });
    const auto worst = [](const Tensor& actual, const Tensor& wanted) {
      return (InFloat64(actual) / wanted - 1).abs().max().item<double>();
    };
    INFO("GELU: " << rows.is_gelu);
    // e^-2u with 2 u up to 25, which is rounded: 25 * 2^-24 are 1.5e-6. By 1 + tanh it would be 1 and more.
    CHECK(worst(out, expected.output) < 5e-6);
    CHECK(worst(of_gate, expected.of_first) < 5e-6);
    CHECK(worst(of_up, expected.of_second) < 5e-6);
  }
}

TEST_CASE("the rotation's threads do as float64 does, and back") {
  torch::manual_seed(4);
  ForGrid([](const SweptType& type, int64_t half, const AsThreads& as) {
    for (const int64_t heads : {1, 3}) {
      for (const bool back : {false, true}) {
        // Heads before tokens in memory, as gradients come out of attention; elements behind the pairs stay.
        const int64_t size = 2 * half + (heads == 3 ? 4 : 0);
        const Tensor x = DrawnValues({heads, 5, size}, type.torch).transpose(0, 1), angles = torch::randn({5, half});
        const Tensor cos = angles.cos().to(type.torch), sin = angles.sin().to(type.torch);
        Tensor out = torch::empty({5, heads, size}, type.torch);
        testing::RotateAsThreads(RotatedRowsOf(type.ours, x, cos, sin, back, out), 5, as);
        CHECK(RelativeError(out, RotatedInFloat64(x, cos, sin, back)) < type.tolerance);
        CHECK(torch::equal(out.narrow(2, 2 * half, size - 2 * half), x.narrow(2, 2 * half, size - 2 * half)));
      }
    }
  });
}

TEST_CASE("what is not finite stays so in the kernels' arithmetic") {
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    std::vector<float> gate(20, 1.0f), up(20, 1.0f), out(20), weight(20, 1.0f);
    gate[3] = bad;
    for (const bool is_gelu : {false, true}) {
      testing::GatedAsThreads({.is_gelu = is_gelu,
                               .size = 20,
                               .gate = gate.data(),
                               .up = up.data(),
                               .row_stride = 20,
                               .output = out.data()},
                              1, {4, 3});
      CHECK((!std::isfinite(out[3]) || (is_gelu && bad < 0)));
      CHECK(std::isfinite(out[4]));
    }
    float scale = 0;
    testing::NormAsThreads(
        {.size = 20, .input = gate.data(), .weight = weight.data(), .scales = &scale, .output = out.data()}, 1, {4, 3});
    CHECK(std::isnan(out[3]));
  }
}

}  // namespace
}  // namespace distill
