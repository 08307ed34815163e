#include "libdistill/nn/layer_sweep.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <torch/csrc/autograd/autograd.h>

#include "libdistill/nn/norm_and_gate.h"
#include "libdistill/nn/rotary.h"
#include "tests/nn/drop_reference.h"
#include "tests/nn/sweep_kinds.h"
#include "tests/nn/swept_values.h"
#include "tests/support/catch.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

constexpr double kEpsilon = 1e-6;

struct Type {
  torch::Dtype torch;
  DType ours;
  double tolerance;
};
constexpr Type kTypes[] = {{torch::kFloat32, DType::kFloat32, 1e-6}, {torch::kBFloat16, DType::kBFloat16, 8e-3}};

constexpr int64_t kSizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 96, 1001};

// Of a norm: the weight's offset is 0 or 1.
std::vector<std::pair<int64_t, float>> SizesAndOffsets() {
  std::vector<std::pair<int64_t, float>> all;
  for (const int64_t size : kSizes) all.insert(all.end(), {{size, 0.0F}, {size, 1.0F}});
  return all;
}

TEST_CASE("each CPU's norm gives what float64 gives, and its gradients") {
  torch::manual_seed(1);
  for (const auto& sweeps : DISTILL_KINDS_OF_THIS_CPU(kLayerSweeps)) {
    for (const Type& type : kTypes) {
      for (const auto& [size, offset] : SizesAndOffsets()) {
        INFO(sweeps.name << ", " << NameOf(type.ours) << ", " << size << ", " << offset);
        const Tensor x = DrawnValues({3, size}, type.torch, 4), w = DrawnValues({size}, type.torch),
                     g = DrawnValues({3, size}, type.torch);
        Tensor scales = torch::empty({3}), out = torch::empty_like(x), of_x = torch::empty_like(x);
        Tensor of_w = torch::zeros({size});
        const NormRows rows = {.dtype = type.ours,
                               .size = size,
                               .input = x.const_data_ptr(),
                               .weight = w.const_data_ptr(),
                               .scales = scales.mutable_data_ptr<float>(),
                               .output = out.mutable_data_ptr(),
                               .epsilon = static_cast<float>(kEpsilon),
                               .rounds = offset == 0,
                               .offset = offset,
                               .gradient = g.const_data_ptr(),
                               .input_gradient = of_x.mutable_data_ptr(),
                               .weight_gradient = of_w.mutable_data_ptr<float>()};
        sweeps.of.norm(rows, 0, 3);
        sweeps.of.norm_gradient(rows, 0, 2);
        sweeps.of.norm_gradient(rows, 2, 3);
        Tensor wide_x = InFloat64(x).requires_grad_(), wide_w = InFloat64(w).requires_grad_();
        const Tensor expected =
            wide_x * (wide_x.square().mean(-1, true) + kEpsilon).rsqrt() * (wide_w + static_cast<double>(offset));
        expected.backward(InFloat64(g));
        CHECK(RelativeError(InFloat64(out), expected.detach()) < type.tolerance);
        // A row of one element is all norm: its gradient is the difference of nearly equal numbers.
        if (size > 1) CHECK(RelativeError(InFloat64(of_x), wide_x.grad()) < type.tolerance);
        CHECK(RelativeError(InFloat64(of_w), wide_w.grad()) < 1e-6);
      }
    }
  }
}

// By gelu or by silu, and how far from 0 the gates are.
constexpr std::pair<bool, double> kGates[] = {{false, 0.01}, {false, 2.0}, {false, 60.0}, {false, 1e4},
                                              {true, 0.01},  {true, 2.0},  {true, 60.0}};

TEST_CASE("each CPU's gated unit gives what float64 gives, also where exponentials overflow") {
  torch::manual_seed(2);
  for (const auto& sweeps : DISTILL_KINDS_OF_THIS_CPU(kLayerSweeps)) {
    for (const Type& type : kTypes) {
      for (const int64_t size : kSizes) {
        for (const auto& [is_gelu, deviation] : kGates) {
          INFO(sweeps.name << ", " << NameOf(type.ours) << ", " << size << ", " << is_gelu << ", " << deviation);
          // Three rows of a tensor that has both beside one another.
          const Tensor both = DrawnValues({3, 2 * size}, type.torch), gradient = torch::empty_like(both);
          const Tensor gate = both.narrow(1, 0, size).mul_(deviation), up = both.narrow(1, size, size);
          const Tensor of_gate = gradient.narrow(1, 0, size), of_up = gradient.narrow(1, size, size);
          const Tensor g = DrawnValues({3, size}, type.torch);
          Tensor out = torch::empty_like(g);
          const GatedRows work = {.dtype = type.ours,
                                  .is_gelu = is_gelu,
                                  .size = size,
                                  .gate = gate.const_data_ptr(),
                                  .up = up.const_data_ptr(),
                                  .row_stride = 2 * size,
                                  .output = out.mutable_data_ptr(),
                                  .gradient = g.const_data_ptr(),
                                  .gate_gradient = of_gate.mutable_data_ptr(),
                                  .up_gradient = of_up.mutable_data_ptr()};
          for (const auto& [begin, end] : {std::pair(0, 1), std::pair(1, 3)}) {
            sweeps.of.gated(work, begin, end);
            sweeps.of.gated_gradient(work, begin, end);
          }
          Tensor wide_gate = InFloat64(gate).requires_grad_(), wide_up = InFloat64(up).requires_grad_();
          const Tensor expected =
              GatedUnitReference(wide_gate, wide_up, is_gelu ? GateKind::kGeluTanh : GateKind::kSilu);
          expected.backward(InFloat64(g));
          // e^-x below 2^-126 is 2^-126: what should be 0 may be 1e-34. Above, rounding x changes it by x 2^-24.
          const double tolerance = type.tolerance + std::min(88.0, gate.abs().max().item<double>()) * 0x1p-24;
          const auto near = [&](const Tensor& actual, const Tensor& wanted) {
            return (InFloat64(actual) - wanted).abs().max().item<double>() <=
                   tolerance * wanted.abs().max().item<double>() + 1e-30;
          };
          CHECK(near(out, expected.detach()));
          CHECK(near(of_gate, wide_gate.grad()));
          CHECK(near(of_up, wide_up.grad()));
        }
      }
    }
  }
}

TEST_CASE("each CPU drops the same elements, those of the plain generator, with a residual and without") {
  torch::manual_seed(5);
  for (const auto& sweeps : DISTILL_KINDS_OF_THIS_CPU(kLayerSweeps)) {
    for (const Type& type : kTypes) {
      for (const int64_t size : {1, 16, 127, 128, 129, 1001}) {
        for (const Dropping& dropping : {Dropping{0, 0, 1}, Dropping{7, 6554, 1.111F},
                                         Dropping{0xfedcba9876543210, 32768, 2}, Dropping{1, 65536, 0}}) {
          INFO(sweeps.name << ", " << NameOf(type.ours) << ", " << size << ", " << dropping.threshold);
          const Tensor x = DrawnValues({size}, type.torch), residual = DrawnValues({size}, type.torch);
          const Tensor dropped = InFloat64(x) * InFloat64(DropFactors(dropping, 1, size)[0]);
          for (const bool adds : {false, true}) {
            Tensor out = torch::empty_like(x);
            const DroppedElements work = {.dtype = type.ours,
                                          .dropping = dropping,
                                          .size = size,
                                          .input = x.const_data_ptr(),
                                          .residual = adds ? residual.const_data_ptr() : nullptr,
                                          .output = out.mutable_data_ptr()};
            const int64_t blocks = (size + kDropBlock - 1) / kDropBlock;
            sweeps.of.drop(work, 0, blocks / 2);
            sweeps.of.drop(work, blocks / 2, blocks);
            const Tensor expected = adds ? InFloat64(residual) + dropped : dropped;
            CHECK(torch::equal(out == 0, (expected == 0)));
            CHECK(RelativeError(InFloat64(out), expected) < type.tolerance);
          }
        }
      }
    }
  }
}

TEST_CASE("what is not finite stays so") {
  for (const auto& sweeps : DISTILL_KINDS_OF_THIS_CPU(kLayerSweeps)) {
    const float nan = std::nanf(""), infinite = INFINITY;
    for (const float bad : {nan, infinite, -infinite}) {
      std::vector<float> gate(19, 1.0f), up(19, 1.0f), out(19), weight(19, 1.0f);
      gate[3] = gate[18] = bad;  // in a vector, and behind the last whole one
      sweeps.of.gated({.size = 19, .gate = gate.data(), .up = up.data(), .row_stride = 19, .output = out.data()}, 0, 1);
      for (const size_t i : {3, 18}) CHECK(!std::isfinite(out[i]));
      CHECK(std::isfinite(out[4]));
      float scale = 0;
      sweeps.of.norm(
          {.size = 19, .input = gate.data(), .weight = weight.data(), .scales = &scale, .output = out.data()}, 0, 1);
      CHECK(std::isnan(out[3]));
    }
  }
}

TEST_CASE("each CPU rotates pairs as float64 does, and back") {
  torch::manual_seed(3);
  for (const auto& sweeps : DISTILL_KINDS_OF_THIS_CPU(kLayerSweeps)) {
    for (const Type& type : kTypes) {
      for (const int64_t half : {1, 3, 4, 8, 16, 20, 64}) {
        for (const int64_t heads : {1, 3}) {
          INFO(sweeps.name << ", " << NameOf(type.ours) << ", " << heads << " heads of " << 2 * half);
          // Heads before tokens in memory, as gradients come out of attention.
          // Three elements behind the pairs stay as they are.
          const int64_t size = 2 * half + (heads == 3 ? 3 : 0);
          const Tensor x = DrawnValues({heads, 5, size}, type.torch).transpose(0, 1), angles = torch::randn({5, half});
          const Tensor cos = angles.cos().to(type.torch), sin = angles.sin().to(type.torch);
          for (const bool back : {false, true}) {
            Tensor out = torch::empty({5, heads, size}, type.torch);
            sweeps.of.rotate(RotatedRowsOf(type.ours, x, cos, sin, back, out), 0, 5);
            CHECK(RelativeError(InFloat64(out), RotatedInFloat64(x, cos, sin, back)) < type.tolerance);
          }
        }
      }
    }
  }
}

using Operation = std::function<Tensor(const std::vector<Tensor>&)>;

// Output and gradients, for leaves of these values.
std::vector<Tensor> RunWithGradients(const Operation& operation, std::vector<Tensor> values, const Tensor& gradient) {
  for (Tensor& value : values) value = value.detach().clone().requires_grad_();
  const Tensor out = operation(values);
  out.backward(gradient);
  std::vector<Tensor> results = {out.detach()};
  for (const Tensor& value : values) results.push_back(value.grad());
  return results;
}

// An operation, what it must agree with, and values for it.
struct Swept {
  const char* name;
  Operation operation, reference;
  std::vector<Tensor> values;
};

constexpr int64_t kHeads = 6, kHalf = 8, kHidden = kHeads * 2 * kHalf;

std::vector<Swept> NormsAndGates(const Tensor& x, const Tensor& other) {
  const Tensor weight = DrawnValues({kHidden}, x.scalar_type());
  return {{"norm",
           [](const auto& v) { return RmsNorm(v[0], v[1], kEpsilon, NormKind::kRounded); },
           [](const auto& v) { return RmsNormReference(v[0], v[1], kEpsilon, NormKind::kRounded); },
           {x, weight}},
          {"norm, rounded at the end",
           [](const auto& v) { return RmsNorm(v[0], v[1], kEpsilon, NormKind::kWide); },
           [](const auto& v) { return RmsNormReference(v[0], v[1], kEpsilon, NormKind::kWide); },
           {x, weight}},
          {"norm of 1 + weight",
           [](const auto& v) { return RmsNorm(v[0], v[1], kEpsilon, NormKind::kPlusOne); },
           [](const auto& v) { return RmsNormReference(v[0], v[1], kEpsilon, NormKind::kPlusOne); },
           {x, weight}},
          {"unit gated by silu",
           [](const auto& v) { return GatedUnit(v[0], v[1], GateKind::kSilu); },
           [](const auto& v) { return GatedUnitReference(v[0], v[1], GateKind::kSilu); },
           {x, other}},
          {"unit gated by gelu",
           [](const auto& v) { return GatedUnit(v[0], v[1], GateKind::kGeluTanh); },
           [](const auto& v) { return GatedUnitReference(v[0], v[1], GateKind::kGeluTanh); },
           {x, other}},
          {"gated unit of both in one",
           [](const auto& v) { return GatedUnit(v[0], GateKind::kGeluTanh); },
           [](const auto& v) {
             const std::vector<Tensor> halves = v[0].chunk(2, 1);
             return GatedUnitReference(halves[0], halves[1], GateKind::kGeluTanh);
           },
           {torch::cat({x, other}, 1)}}};
}

std::vector<Swept> Rotations(const Tensor& x) {
  const int64_t tokens = x.size(0);
  const Tensor angles = torch::randn({tokens, 1, kHalf});
  const RotaryAngles rotary = {angles.cos().to(x.scalar_type()), angles.sin().to(x.scalar_type())};
  // Of heads of `size` elements, of which the first 2 * kHalf are rotated.
  const auto by = [=](Tensor (*rotate)(const Tensor&, const RotaryAngles&), int64_t size) {
    return [=](const std::vector<Tensor>& v) {
      return rotate(v[0].view({tokens, kHidden / size, size}), rotary).flatten(1);
    };
  };
  return {{"rotate", by(Rotate, 2 * kHalf), by(RotateReference, 2 * kHalf), {x}},
          {"rotate a part", by(Rotate, 4 * kHalf), by(RotateReference, 4 * kHalf), {x}}};
}

void CheckSwept(const Swept& swept, const Tensor& gradient, double tolerance) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const std::vector<Tensor> actual = RunWithGradients(swept.operation, swept.values, gradient);
  at::set_num_threads(2);
  const std::vector<Tensor> shared = RunWithGradients(swept.operation, swept.values, gradient);
  at::set_num_threads(threads);
  const std::vector<Tensor> expected = RunWithGradients(swept.reference, swept.values, gradient);
  const torch::NoGradGuard no_grad;
  CHECK(torch::equal(swept.operation(swept.values), actual[0]));
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(actual[i].sizes() == expected[i].sizes());
    if (actual[i].numel() > 0) CHECK(RelativeError(actual[i], expected[i]) < tolerance);
    CHECK(torch::equal(actual[i], shared[i]));
  }
}

TEST_CASE("operations that sweep agree with their tensor operations, and do not depend on the number of threads") {
  torch::manual_seed(4);
  for (const Type& type : kTypes) {
    for (const int64_t tokens : {0, 1, 2, 127, 128, 129, 700}) {
      const Tensor x = DrawnValues({tokens, kHidden}, type.torch), other = DrawnValues({tokens, kHidden}, type.torch);
      // Not contiguous, as gradients may be.
      const Tensor gradient = DrawnValues({kHidden, tokens}, type.torch).t();
      for (const auto& operations : {NormsAndGates(x, other), Rotations(x)}) {
        for (const Swept& swept : operations) {
          INFO(swept.name << ", " << NameOf(type.ours) << ", " << tokens << " tokens");
          CheckSwept(swept, gradient, 4 * type.tolerance);
        }
      }
    }
  }
}

TEST_CASE("operations take the sweep where they can") {
  torch::manual_seed(5);
  const Tensor x = torch::randn({40, 96}), w = torch::randn({96}), up = torch::randn({40, 96});
  Tensor normed = torch::empty_like(x), gated = torch::empty_like(x), scales = torch::empty({40});
  SweepsFor(DType::kFloat32)
      .norm({.size = 96,
             .input = x.const_data_ptr(),
             .weight = w.const_data_ptr(),
             .scales = scales.mutable_data_ptr<float>(),
             .output = normed.mutable_data_ptr(),
             .epsilon = static_cast<float>(kEpsilon)},
            0, 40);
  SweepsFor(DType::kFloat32)
      .gated({.size = 96,
              .gate = x.const_data_ptr(),
              .up = up.const_data_ptr(),
              .row_stride = 96,
              .output = gated.mutable_data_ptr()},
             0, 40);
  // To the bit, which the tensor operations do not reach.
  CHECK(torch::equal(RmsNorm(x, w, kEpsilon, NormKind::kRounded), normed));
  CHECK_FALSE(torch::equal(RmsNormReference(x, w, kEpsilon, NormKind::kRounded), normed));
  CHECK(torch::equal(GatedUnit(x, up, GateKind::kSilu), gated));
  CHECK_FALSE(torch::equal(GatedUnitReference(x, up, GateKind::kSilu), gated));
}

TEST_CASE("a gated unit of a type without sweeps has the gradients of its tensor operations") {
  torch::manual_seed(6);
  const Tensor gate = torch::randn({7, 5}, torch::kFloat64), up = torch::randn({7, 5}, torch::kFloat64);
  const Tensor gradient = torch::randn({5, 7}, torch::kFloat64).t();
  for (const GateKind kind : {GateKind::kSilu, GateKind::kGeluTanh}) {
    const auto actual =
        RunWithGradients([&](const auto& v) { return GatedUnit(v[0], v[1], kind); }, {gate, up}, gradient);
    const auto expected =
        RunWithGradients([&](const auto& v) { return GatedUnitReference(v[0], v[1], kind); }, {gate, up}, gradient);
    const auto of_both =
        RunWithGradients([&](const auto& v) { return GatedUnit(v[0], kind); }, {torch::cat({gate, up}, 1)}, gradient);
    for (size_t i = 0; i < expected.size(); ++i) CHECK(RelativeError(actual[i], expected[i]) < 1e-12);
    CHECK(RelativeError(of_both[0], expected[0]) < 1e-12);
    CHECK(RelativeError(of_both[1], torch::cat({expected[1], expected[2]}, 1)) < 1e-12);
  }
}

TEST_CASE("second derivatives are refused, not wrong") {
  const Tensor x = torch::randn({3, 4}).requires_grad_(), w = torch::ones({4});
  for (const Tensor& out : {RmsNorm(x, w, kEpsilon, NormKind::kRounded), GatedUnit(x, x, GateKind::kSilu)}) {
    CHECK_THROWS_WITH(torch::autograd::grad({out.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true),
                      Catch::Contains("second derivatives"));
  }
}

}  // namespace
}  // namespace distill
