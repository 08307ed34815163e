#include "libdistill/nn/row_products.h"

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ops/matmul.h>

#include "libdistill/core/vectors.h"
#include "libdistill/tensor/convert.h"
#include "tests/nn/sweep_kinds.h"
#include "tests/support/catch.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

struct ProductLoops {
  std::string name;
  const RowProductLoops& loops;
  torch::Dtype type;
};

// All that this CPU can run.
std::vector<ProductLoops> AllLoops() {
  std::vector<ProductLoops> all;
  for (const auto& kind : DISTILL_KINDS_OF_THIS_CPU(kRowProducts)) all.push_back({kind.name, kind.of, torch::kFloat32});
  const RowProductLoops* of_bfloats = RowProductLoopsFor(DType::kBFloat16);
  if (of_bfloats != nullptr) all.push_back({"avx512_bf16", *of_bfloats, torch::kBFloat16});
  return all;
}

struct Packed {
  MatrixView matrix = {};
  Tensor values = {};
};

// `weight` [out, in], or its transpose, in any of two orders of its elements.
Packed PackedOf(const RowProductLoops& loops, const Tensor& weight) {
  Packed packed = {.matrix = {.weight = weight.const_data_ptr(),
                              .out = weight.size(0),
                              .in = weight.size(1),
                              .out_stride = weight.stride(0),
                              .in_stride = weight.stride(1)}};
  // A NaN in what is to be filled up with zeros would show.
  packed.values = torch::full({PackedElements(loops, packed.matrix)}, NAN, weight.options());
  const int64_t panels = PanelsOf(loops, weight.size(0)), middle = panels / 2;
  loops.pack(packed.matrix, packed.values.mutable_data_ptr(), middle, panels);
  loops.pack(packed.matrix, packed.values.mutable_data_ptr(), 0, middle);
  return packed;
}

void CompareWithMatmul(const ProductLoops& of, int64_t rows, int64_t in, int64_t out, bool transposed) {
  const Tensor x = torch::randn({rows, in}).to(of.type), bias = torch::randn({out});
  const Tensor weight = transposed ? torch::randn({in, out}).to(of.type).t() : torch::randn({out, in}).to(of.type);
  const Tensor expected = at::matmul(x.to(torch::kFloat64), weight.to(torch::kFloat64).t());
  const Packed packed = PackedOf(of.loops, weight);
  Tensor y = torch::full({rows, out}, NAN);
  RowProduct product = {.x = x.const_data_ptr(), .y = y.mutable_data_ptr<float>(), .rows = rows};
  const auto multiply = [&](int64_t begin, int64_t end) {
    of.loops.multiply(packed.matrix, packed.values.const_data_ptr(), product, begin, end);
    return y.to(torch::kFloat64);
  };
  const int64_t panels = PanelsOf(of.loops, out);
  CHECK(RelativeError(multiply(0, panels), expected) < 1e-5);
  const Tensor whole = y.clone();
  y.fill_(NAN);
  for (int64_t panel = panels; panel-- > 0;) multiply(panel, panel + 1);
  CHECK(torch::equal(y, whole));
  product.adds = true;
  CHECK(RelativeError(multiply(0, panels), 2 * expected) < 1e-5);
  product.adds = false;
  product.bias = bias.const_data_ptr<float>();
  CHECK(RelativeError(multiply(0, panels), expected + bias) < 1e-5);
}

TEST_CASE(
    "products of a few rows with a packed matrix are those of matmul, for sizes that fill tiles and that do not") {
  torch::manual_seed(3);
  for (const ProductLoops& of : AllLoops()) {
    for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 17}) {
      for (const int64_t in : {1, 2, 31, 64}) {
        for (const int64_t out : {1, 12, 24, 48, 50, 96, 101}) {
          for (const bool transposed : {false, true}) {
            INFO(of.name << ": " << rows << " rows of " << in << " by " << out << ", transposed " << transposed);
            CompareWithMatmul(of, rows, in, out, transposed);
          }
        }
      }
    }
  }
}

TEST_CASE("infinities and NaN stay in a packed matrix's products") {
  for (const ProductLoops& of : AllLoops()) {
    INFO(of.name);
    Tensor weight = torch::ones({50, 5}).to(of.type), y = torch::zeros({2, 50});
    weight[49][4] = NAN;
    weight[1][0] = INFINITY;
    const Tensor x = torch::ones({2, 5}).to(of.type);
    const Packed packed = PackedOf(of.loops, weight);
    of.loops.multiply(packed.matrix, packed.values.const_data_ptr(),
                      {.x = x.const_data_ptr(), .y = y.mutable_data_ptr<float>(), .rows = 2}, 0,
                      PanelsOf(of.loops, 50));
    CHECK(std::isnan(y[1][49].item<float>()));
    CHECK(std::isinf(y[0][1].item<float>()));
    CHECK(y.isfinite().sum().item<int64_t>() == 2 * 48);
  }
}

TEST_CASE("this CPU has loops for float32, and for bfloat16 where it has instructions") {
  CHECK(RowProductLoopsFor(DType::kFloat32) != nullptr);
  CHECK((RowProductLoopsFor(DType::kBFloat16) != nullptr) == CpuHasBf16Vectors());
  CHECK(RowProductLoopsFor(DType::kFloat16) == nullptr);
}

}  // namespace
}  // namespace distill
