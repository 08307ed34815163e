// The kernels of the layers' sweeps on a GPU, through the operations that models call, beside float64;
// layer_sweep_device_test.cc has their arithmetic without a GPU.
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "libdistill/nn/layer_sweep_cuda.h"
#include "libdistill/nn/layer_sweep_run.h"
#include "libdistill/nn/norm_and_gate.h"
#include "libdistill/nn/rotary.h"
#include "tests/nn/swept_values.h"
#include "tests/support/catch.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

bool HasGpu() {
  if (torch::cuda::is_available() && HasCudaLayerSweeps()) return true;
  std::printf("skipped: no GPU here, or a build without CUDA\n");
  return false;
}

Tensor ValuesOnGpu(const std::vector<int64_t>& shape, torch::Dtype dtype, double deviation = 1) {
  return DrawnValues(shape, dtype, deviation).to(at::kCUDA);
}

TEST_CASE("a GPU's norm gives what float64 gives, and its gradients", "[on_gpu]") {
  if (!HasGpu()) return;
  torch::manual_seed(1);
  for (const SweptType& type : kSweptTypes) {
    // One warp a row and a block a row, the widest rows whose sums are shared, and wider ones; odd ones.
    for (const int64_t size : {2, 3, 64, 96, 128, 1000, 1024, 1025, 1028, 4096, 11264, 11268, 16385}) {
      for (const int64_t rows : {1, 2, 7, size > 4096 ? 70 : 700}) {
        for (const NormKind kind : {NormKind::kRounded, NormKind::kWide, NormKind::kPlusOne}) {
          INFO(NameOf(type.ours) << ", " << rows << " rows of " << size << ", kind " << static_cast<int>(kind));
          const Tensor x = ValuesOnGpu({rows, size}, type.torch, 4), w = ValuesOnGpu({size}, type.torch),
                       g = ValuesOnGpu({rows, size}, type.torch);
          REQUIRE(LayerSweepType(x, w).has_value());
          const Differentiated actual =
              Differentiate(x, w, g, [&](const auto& a, const auto& b) { return RmsNorm(a, b, kSweptEpsilon, kind); });
          const Differentiated expected = NormInFloat64(x, w, g, kind);
          CHECK(RelativeError(actual.output, expected.output) < type.tolerance);
          // In short rows what is left of the gradient may be the small difference of two numbers.
          CHECK(RelativeError(actual.of_first, expected.of_first) < (size < 8 ? 50 : 1) * type.tolerance);
          CHECK(RelativeError(actual.of_second, expected.of_second) < std::max(1e-5, type.tolerance));
          const torch::NoGradGuard no_grad;
          CHECK(torch::equal(RmsNorm(x, w, kSweptEpsilon, kind), actual.output));
        }
      }
    }
  }
}

// As those of queries are: many rows, one for each head.
TEST_CASE("a GPU's norm of many short rows gives the same bits twice, and what float64 gives", "[on_gpu]") {
  if (!HasGpu()) return;
  torch::manual_seed(2);
  for (const SweptType& type : kSweptTypes) {
    for (const int64_t size : {128, 65}) {
      const Tensor x = ValuesOnGpu({40'003, size}, type.torch), w = ValuesOnGpu({size}, type.torch),
                   g = ValuesOnGpu({40'003, size}, type.torch);
      const auto norm = [](const auto& a, const auto& b) { return RmsNorm(a, b, kSweptEpsilon, NormKind::kRounded); };
      const Differentiated actual = Differentiate(x, w, g, norm), again = Differentiate(x, w, g, norm);
      CHECK(torch::equal(actual.output, again.output));
      CHECK(torch::equal(actual.of_first, again.of_first));
      CHECK(torch::equal(actual.of_second, again.of_second));
      const Differentiated expected = NormInFloat64(x, w, g, NormKind::kRounded);
      CHECK(RelativeError(actual.output, expected.output) < type.tolerance);
      CHECK(RelativeError(actual.of_first, expected.of_first) < type.tolerance);
      CHECK(RelativeError(actual.of_second, expected.of_second) < std::max(1e-5, type.tolerance));
    }
  }
}

TEST_CASE("a GPU's norm takes the gradient of one of its two alone", "[on_gpu]") {
  if (!HasGpu()) return;
  torch::manual_seed(3);
  const auto kind = NormKind::kPlusOne;
  for (const int64_t size : {96, 2048, 16384}) {
    const Tensor x = ValuesOnGpu({9, size}, torch::kBFloat16), w = ValuesOnGpu({size}, torch::kBFloat16),
                 g = ValuesOnGpu({9, size}, torch::kBFloat16);
    const Differentiated both =
        Differentiate(x, w, g, [&](const auto& a, const auto& b) { return RmsNorm(a, b, kSweptEpsilon, kind); });
    const Tensor leaf_x = x.clone().requires_grad_(), leaf_w = w.clone().requires_grad_();
    RmsNorm(leaf_x, w, kSweptEpsilon, kind).backward(g);
    RmsNorm(x, leaf_w, kSweptEpsilon, kind).backward(g);
    CHECK(torch::equal(leaf_x.grad(), both.of_first));
    CHECK(torch::equal(leaf_w.grad(), both.of_second));
  }
}

// Gate and up as halves of one tensor, `shift` elements from where groups begin.
void CheckGated(const SweptType& type, GateKind kind, int64_t rows, int64_t size, int64_t shift, double deviation) {
  INFO(NameOf(type.ours) << ", " << rows << " rows of " << size << " shifted by " << shift << ", kind "
                         << static_cast<int>(kind) << ", gates " << deviation << " from 0");
  const Tensor both = ValuesOnGpu({rows, 2 * size + shift}, type.torch);
  const Tensor gate = both.narrow(1, shift, size).mul_(deviation), up = both.narrow(1, shift + size, size);
  const Tensor g = ValuesOnGpu({size, rows}, type.torch).t();  // not contiguous, as gradients may be
  REQUIRE(LayerSweepType(gate, up).has_value());
  const Differentiated expected = GatedInFloat64(gate, up, g, kind);
  const double tolerance = type.tolerance + std::min(88.0, InFloat64(gate).abs().max().item<double>()) * 0x1p-24;
  const Tensor leaf = both.clone().requires_grad_();
  const Tensor halves = leaf.narrow(1, shift, 2 * size), one = GatedUnit(halves, kind);
  one.backward(g);
  const Tensor gradient = leaf.grad().narrow(1, shift, 2 * size);
  CHECK(AreNear(one, expected.output, tolerance));
  CHECK(AreNear(gradient.narrow(1, 0, size), expected.of_first, tolerance));
  CHECK(AreNear(gradient.narrow(1, size, size), expected.of_second, tolerance));
  const Differentiated two =
      Differentiate(gate, up, g, [&](const auto& a, const auto& b) { return GatedUnit(a, b, kind); });
  CHECK(torch::equal(two.output, one));
  CHECK(AreNear(two.of_first, expected.of_first, tolerance));
  CHECK(AreNear(two.of_second, expected.of_second, tolerance));
  const torch::NoGradGuard no_grad;
  CHECK(torch::equal(GatedUnit(gate, up, kind), one));
}

TEST_CASE("a GPU's gated unit gives what float64 gives, also where exponentials overflow", "[on_gpu]") {
  if (!HasGpu()) return;
  torch::manual_seed(4);
  for (const SweptType& type : kSweptTypes) {
    for (const GateKind kind : {GateKind::kSilu, GateKind::kGeluTanh}) {
      for (const int64_t size : {1, 3, 8, 96, 1001, 2048, 2056, 14336}) {
        for (const int64_t rows : {1, 3, 130}) {
          for (const int64_t shift : {0, 1, 8}) CheckGated(type, kind, rows, size, shift, 2.0);
        }
      }
      const double far = type.ours == DType::kFloat16 ? 1e3 : 1e4;  // float16 holds no product of the latter
      for (const double deviation : {0.01, 60.0, far}) CheckGated(type, kind, 5, 1024, 0, deviation);
    }
  }
}

// Heads of 2 half + rest elements; those of one tensor that has more beside them where they are apart.
void CheckRotated(const SweptType& type, int64_t tokens, int64_t heads, int64_t half, int64_t rest, bool are_apart) {
  INFO(NameOf(type.ours) << ", " << tokens << " tokens, " << heads << " heads of " << half << " pairs and " << rest
                         << (are_apart ? ", apart" : ""));
  const int64_t size = 2 * half + rest;
  const Tensor angles = torch::randn({tokens, 1, half});
  const RotaryAngles rotary = {angles.cos().to(at::kCUDA, type.torch), angles.sin().to(at::kCUDA, type.torch)};
  const Tensor x = are_apart ? ValuesOnGpu({tokens, heads + 2, size}, type.torch).narrow(1, 1, heads)
                             : ValuesOnGpu({tokens, heads, size}, type.torch);
  // Heads before tokens in memory, as they come out of attention.
  const Tensor g = ValuesOnGpu({heads, tokens, size}, type.torch).transpose(0, 1);
  REQUIRE(LayerSweepType(x, rotary.cos, rotary.sin).has_value());
  const Tensor leaf = x.detach().requires_grad_();
  const Tensor out = Rotate(leaf, rotary);
  out.backward(g);
  CHECK(RelativeError(out, RotatedInFloat64(x, rotary.cos, rotary.sin, false)) < type.tolerance);
  CHECK(RelativeError(leaf.grad(), RotatedInFloat64(g, rotary.cos, rotary.sin, true)) < type.tolerance);
  const torch::NoGradGuard no_grad;
  CHECK(torch::equal(Rotate(x, rotary), out));
}

TEST_CASE("a GPU rotates pairs as float64 does, whole heads and parts of them, and back", "[on_gpu]") {
  if (!HasGpu()) return;
  torch::manual_seed(5);
  for (const SweptType& type : kSweptTypes) {
    for (const int64_t half : {1, 3, 8, 16, 20, 64, 128}) {
      for (const int64_t rest : {0, 3, 32}) {
        for (const int64_t heads : {1, 3, 32}) {
          for (const int64_t tokens : {1, 5, 300}) {
            for (const bool are_apart : {false, true}) CheckRotated(type, tokens, heads, half, rest, are_apart);
          }
        }
      }
    }
  }
}

// What scaled frequencies give: cosines and sines times a factor.
TEST_CASE("a GPU rotates by the tables of scaled frequencies as tensor operations do", "[on_gpu]") {
  if (!HasGpu()) return;
  torch::manual_seed(6);
  for (const SweptType& type : kSweptTypes) {
    for (const double factor : {1.0, 1.35}) {
      RopeConfig rope;
      rope.attention_factor = factor;
      RotaryTable table(rope, 128);
      const Tensor x = ValuesOnGpu({77, 4, 128}, type.torch);
      const Tensor positions = torch::arange(77, torch::kInt64).to(at::kCUDA);
      const RotaryAngles angles = table.At(positions, 77, {}, x);
      CHECK(RelativeError(Rotate(x, angles), RotatedInFloat64(x, angles.cos, angles.sin, false)) < type.tolerance);
      CHECK(RelativeError(Rotate(x, angles), RotateReference(x, angles)) < 2 * type.tolerance);
    }
  }
}

TEST_CASE("a GPU's sweeps of nothing are nothing", "[on_gpu]") {
  if (!HasGpu()) return;
  const Tensor x = ValuesOnGpu({0, 64}, torch::kBFloat16), w = ValuesOnGpu({64}, torch::kBFloat16);
  const Differentiated normed = Differentiate(
      x, w, x, [](const auto& a, const auto& b) { return RmsNorm(a, b, kSweptEpsilon, NormKind::kRounded); });
  CHECK(normed.of_first.sizes() == x.sizes());
  CHECK(normed.of_second.eq(0).all().item<bool>());
  const Differentiated gated =
      Differentiate(x, x, x, [](const auto& a, const auto& b) { return GatedUnit(a, b, GateKind::kSilu); });
  CHECK(gated.of_first.sizes() == x.sizes());
  const Tensor none = ValuesOnGpu({0, 1, 8}, torch::kBFloat16);
  CHECK(Rotate(ValuesOnGpu({0, 2, 16}, torch::kBFloat16), {none, none}).numel() == 0);
}

TEST_CASE("a GPU's sweeps come after what their stream has before them", "[on_gpu]") {
  if (!HasGpu()) return;
  torch::manual_seed(7);
  const Tensor a = ValuesOnGpu({4096, 4096}, torch::kFloat32, 1.0 / 64), w = ValuesOnGpu({4096}, torch::kFloat32);
  const c10::Device device(at::kCUDA, a.get_device());
  const auto run = [&] {
    Tensor x = a;
    for (int i = 0; i < 20; ++i) x = at::mm(x, a);
    return RmsNorm(GatedUnit(x, x, GateKind::kSilu), w, kSweptEpsilon, NormKind::kWide);
  };
  const Tensor expected = run().cpu();
  const c10::impl::VirtualGuardImpl of_type(at::kCUDA);
  const c10::StreamGuard guard(of_type.getStreamFromGlobalPool(device));
  CHECK(RelativeError(run().cpu(), expected) < 1e-3);
}

}  // namespace
}  // namespace distill
