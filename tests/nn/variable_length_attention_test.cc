// Attention of documents of several lengths in one call: on a CPU how it is called, with kernels in place of the flash
// ones that GPUs have (fake_flash_kernels.h); on a GPU what those compute.
#include "libdistill/nn/variable_length_attention.h"

#include <ATen/record_function.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/nn/attention.h"
#include "libdistill/nn/tiled_attention.h"
#include "libdistill/tensor/multiplies_bf16.h"
#include "tests/nn/fake_flash_kernels.h"
#include "tests/support/catch.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

// Rows of documents, as TokenInput has them.
using Starts = std::vector<std::vector<int64_t>>;
// Of one length; of two lengths near enough to pad; of several, also of one token, with padding in between.
const Starts kRows[] = {{{0, 9}, {0, 9}},
                        {{0, 40, 78}},
                        {{0, 5, 6, 30, 64}, {0, 64}, {0, 13, 13, 27}},
                        {{0, 1, 2, 3, 5, 64}, {0, 30, 58, 64}, {0, 20, 40}}};

TokenLayout LayoutOfRows(const Starts& rows, torch::Device device, bool in_order = false) {
  int64_t tokens = 0;
  for (const auto& starts : rows) tokens = std::max(tokens, starts.back());
  const auto options = torch::TensorOptions(torch::kInt64).device(device);
  const Tensor ids = torch::zeros({static_cast<int64_t>(rows.size()), tokens}, options);
  return *LayoutOf({ids, rows}, in_order);
}

struct Heads {
  int64_t queries, keys, size;
};

struct Attended {
  std::vector<Tensor> all;  // the output, and the gradients of queries, keys and values; float64 on the CPU
};

// [P, heads, D] each, of a product that has all three where they are `fused`, as leaves; `attend` gives [P, A * D].
template <typename Attend>
Attended Run(const std::vector<Tensor>& values, const Tensor& gradient, bool fused, const Attend& attend) {
  std::vector<Tensor> leaves;
  for (const Tensor& value : values) leaves.push_back(value.detach().clone().requires_grad_());
  std::vector<Tensor> parts = leaves;
  if (fused) {
    const std::vector<int64_t> sizes = {values[0].size(1), values[1].size(1), values[2].size(1)};
    parts = at::split_with_sizes(torch::cat(leaves, 1), sizes, 1);
  }
  const Tensor output = attend(parts[0], parts[1], parts[2]);
  output.backward(gradient);
  Attended attended;
  for (const Tensor& tensor : {output.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()}) {
    attended.all.push_back(tensor.to(torch::kCPU, torch::kFloat64).flatten(1));
  }
  return attended;
}

// Document by document, by whole matrices in float64 on the CPU.
Tensor AttendEach(const Tensor& query, const Tensor& keys, const Tensor& values, const TokenLayout& layout,
                  const TiledAttention& options) {
  const Tensor begins = layout.begins.cpu();
  std::vector<Tensor> parts;
  for (int64_t i = 0; i + 1 < begins.numel(); ++i) {
    const int64_t begin = begins[i].item<int64_t>(), length = begins[i + 1].item<int64_t>() - begin;
    const auto part = [&](const Tensor& x) { return x.narrow(0, begin, length).transpose(0, 1).unsqueeze(0); };
    parts.push_back(AttendReference(part(query), part(keys), part(values), options).squeeze(0).transpose(0, 1));
  }
  return torch::cat(parts).flatten(1);
}

struct Case {
  Heads heads;
  bool is_causal;
  AttentionTraits traits;
  bool fused = false;
};

std::string TextOf(const Case& c, size_t rows) {
  return absl::StrCat("rows ", rows, ", ", c.heads.queries, " and ", c.heads.keys, " heads of ", c.heads.size,
                      c.is_causal ? ", causal" : "", ", window ", c.traits.window, ", scale ", c.traits.scale, ", cap ",
                      c.traits.softcap, c.fused ? ", fused" : "");
}

struct Drawn {
  std::vector<Tensor> values;
  Tensor gradient;
};

// On the CPU. Padding gives no gradient, as in models.
Drawn DrawFor(const TokenLayout& layout, const Heads& heads, torch::Dtype dtype) {
  const int64_t tokens = layout.positions.size(0);
  Drawn drawn;
  for (const int64_t each : {heads.queries, heads.keys, heads.keys}) {
    drawn.values.push_back(torch::randn({tokens, each, heads.size}).to(dtype));
  }
  drawn.gradient = torch::randn({tokens, heads.queries * heads.size}).to(dtype);
  if (layout.real.defined()) drawn.gradient = drawn.gradient * layout.real.cpu();
  return drawn;
}

std::vector<Tensor> To(const std::vector<Tensor>& tensors, torch::Device device, torch::Dtype dtype) {
  std::vector<Tensor> all;
  for (const Tensor& tensor : tensors) all.push_back(tensor.to(device, dtype));
  return all;
}

Attended Expected(const Drawn& drawn, const TokenLayout& layout, const Case& c) {
  return Run(To(drawn.values, torch::kCPU, torch::kFloat64), drawn.gradient.to(torch::kFloat64), false,
             [&](const Tensor& q, const Tensor& k, const Tensor& v) {
               return AttendEach(q, k, v, layout, {.traits = c.traits, .is_causal = c.is_causal});
             });
}

void CheckAlike(const Attended& actual, const Attended& expected, const TokenLayout& layout, double tolerance) {
  for (size_t i = 0; i < actual.all.size(); ++i) {
    INFO("tensor " << i);
    // What padding gives is nobody's.
    const Tensor real =
        layout.real.defined() ? layout.real.cpu().to(torch::kFloat64) : torch::ones({}, torch::kFloat64);
    const Tensor wanted = expected.all[i] * real;
    if (wanted.abs().max().item<double>() < 1e-9) {
      // The gradients of queries that see one key alone: nothing, but for rounding.
      CHECK((actual.all[i] * real).abs().max().item<double>() < tolerance);
    } else {
      CHECK(RelativeError(actual.all[i] * real, wanted) < tolerance);
    }
  }
}

TEST_CASE("a layout says where its documents begin, and counts padding by itself") {
  const auto begins = [](const Starts& rows) {
    const Tensor tensor = LayoutOfRows(rows, torch::kCPU).begins;
    CHECK(tensor.scalar_type() == torch::kInt32);
    return std::vector<int32_t>(tensor.const_data_ptr<int32_t>(), tensor.const_data_ptr<int32_t>() + tensor.numel());
  };
  CHECK(begins({{0, 9}, {0, 9}}) == std::vector<int32_t>{0, 9, 18});
  CHECK(begins({{0, 40, 78}}) == std::vector<int32_t>{0, 40, 78, 80});
  CHECK(begins({{0, 3, 10}, {0, 1}}) == std::vector<int32_t>{0, 7, 10, 11});
}

int64_t calls = 0;
std::unique_ptr<at::ObserverContext> CountCall(const at::RecordFunction& function) {
  if (std::string(function.name()) == "aten::_flash_attention_forward") ++calls;
  return nullptr;
}

TEST_CASE("a layout in the batch's order pads nothing, and is the batch itself where rows are full") {
  const auto numbers = [](const Tensor& tensor) {
    const Tensor wide = tensor.to(torch::kInt64);
    return std::vector<int64_t>(wide.const_data_ptr<int64_t>(), wide.const_data_ptr<int64_t>() + wide.numel());
  };
  const TokenLayout full = LayoutOfRows({{0, 3, 5}, {0, 2, 5}}, torch::kCPU, /*in_order=*/true);
  CHECK(numbers(full.begins) == std::vector<int64_t>{0, 3, 5, 7, 10});
  CHECK(numbers(full.positions) == std::vector<int64_t>{0, 1, 2, 0, 1, 0, 1, 0, 1, 2});
  CHECK((full.max_length == 3 && full.rectangles.size() == 3 && full.rectangles[1].documents == 2));
  CHECK_FALSE((full.source.defined() || full.target.defined() || full.real.defined()));
  const TokenLayout gaps = LayoutOfRows({{0, 1, 3}, {0, 4}, {0, 2}}, torch::kCPU, /*in_order=*/true);
  CHECK(numbers(gaps.begins) == std::vector<int64_t>{0, 1, 3, 7, 9});
  CHECK(numbers(gaps.source) == std::vector<int64_t>{0, 1, 2, 4, 5, 6, 7, 8, 9});
  CHECK(numbers(gaps.target) == std::vector<int64_t>{0, 1, 2, 0, 3, 4, 5, 6, 7, 8, 0, 0});
  CHECK_FALSE(gaps.real.defined());
  // Of one length all: the same for both.
  CHECK_FALSE(LayoutOfRows({{0, 4}, {0, 4}}, torch::kCPU, /*in_order=*/true).source.defined());
}

TEST_CASE("documents of several lengths are one call, which gives what each document gives by itself") {
  torch::manual_seed(1);
  const auto counter = at::addThreadLocalCallback(at::RecordFunctionCallback(CountCall));
  for (size_t rows = 0; rows < std::size(kRows); ++rows) {
    const TokenLayout layout = LayoutOfRows(kRows[rows], torch::kCPU, /*in_order=*/rows % 2 == 0);
    for (const Heads& heads : {Heads{4, 4, 8}, Heads{6, 2, 16}, Heads{3, 1, 5}}) {
      for (const Case& c : {Case{heads, true, {}}, Case{heads, false, {}}, Case{heads, true, {.scale = 0.3}},
                            Case{heads, true, {.window = 4}}, Case{heads, true, {.window = 1}},
                            Case{heads, true, {.window = 1000}, true}}) {
        INFO(TextOf(c, rows));
        const Drawn drawn = DrawFor(layout, heads, torch::kFloat64);
        const int64_t forwards = testing::FlashForwards(), backwards = testing::FlashBackwards();
        calls = 0;
        const Attended actual =
            Run(drawn.values, drawn.gradient, c.fused, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
              return AttendVariableLengths(q, k, v, layout, c.is_causal, 0, c.traits).flatten(1);
            });
        CHECK((calls == 1 && testing::FlashForwards() - forwards == 1));
        CHECK(testing::FlashBackwards() - backwards == 1);
        CheckAlike(actual, Expected(drawn, layout, c), layout, 1e-12);
      }
    }
  }
  at::removeCallback(counter);
}

TEST_CASE("a CPU keeps its own kernels for documents of several lengths") {
  const TokenLayout layout = LayoutOfRows(kRows[2], torch::kCPU);
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16}) {
    const Drawn drawn = DrawFor(layout, {4, 2, 8}, dtype);
    CHECK_FALSE(TakesVariableLengths({.device = torch::kCPU, .dtype = dtype, .head_size = 8}));
    const int64_t forwards = testing::FlashForwards();
    DocumentAttention(drawn.values[0], drawn.values[1], drawn.values[2], layout, /*is_causal=*/true);
    CHECK(testing::FlashForwards() == forwards);
  }
}

// Documents of several lengths: nothing comes out, and every input has a gradient of zeros.
void CheckAllDropped(torch::Device device, torch::Dtype dtype, const AttentionTraits& traits, bool is_causal) {
  for (const Starts& rows : kRows) {
    const TokenLayout layout = LayoutOfRows(rows, device);
    const Drawn drawn = DrawFor(layout, {4, 4, 64}, dtype);
    const Attended attended = Run(To(drawn.values, device, dtype), drawn.gradient.to(device), false,
                                  [&](const Tensor& q, const Tensor& k, const Tensor& v) {
                                    return DocumentAttention(q, k, v, layout, is_causal, /*dropout=*/1, traits);
                                  });
    for (const Tensor& tensor : attended.all) CHECK(tensor.eq(0).all().item<bool>());
  }
}

// float64, which has no tiles either, stands for a GPU here.
TEST_CASE("where all is dropped nothing is left, also on a device without tiles") {
  const int64_t forwards = testing::FlashForwards();
  for (const bool is_causal : {false, true}) CheckAllDropped(torch::kCPU, torch::kFloat64, {}, is_causal);
  CheckAllDropped(torch::kCPU, torch::kFloat64, {.window = 4}, true);
  CheckAllDropped(torch::kCPU, torch::kFloat64, {.softcap = 1.5}, true);
  CHECK(testing::FlashForwards() == forwards);
}

TEST_CASE("flash kernels take heads of up to 256 elements, a multiple of 8, and some only without dropout") {
  for (const int64_t size : {8, 64, 80, 96, 128, 192, 256}) CHECK(HasVariableLengths(size, 0));
  for (const int64_t size : {8, 64, 192}) CHECK(HasVariableLengths(size, 0.1));
  for (const int64_t size : {12, 65, 200, 224, 264, 512}) CHECK_FALSE(HasVariableLengths(size, 0));
  CHECK_FALSE(HasVariableLengths(256, 0.1));
}

bool HasFlash() {
  if (torch::cuda::is_available() && MultipliesBf16(at::kCUDA)) return true;
  std::printf("skipped: no GPU of compute capability 8.0 or later here\n");
  return false;
}

// On a GPU beside float64, and how many calls of flash kernels that takes.
void CheckOnGpu(size_t rows, const Case& c, torch::Dtype dtype, double tolerance, int64_t expected_calls,
                bool in_order = false) {
  INFO(TextOf(c, rows) << ", " << dtype << (in_order ? ", in order" : ""));
  const torch::Device gpu(torch::kCUDA, 0);
  const TokenLayout layout = LayoutOfRows(kRows[rows], gpu, in_order);
  const Drawn drawn = DrawFor(layout, c.heads, dtype);
  AttentionTraits there = c.traits;
  if (there.sinks.defined()) there.sinks = there.sinks.to(gpu, dtype);
  calls = 0;
  const Attended actual = Run(To(drawn.values, gpu, dtype), drawn.gradient.to(gpu), c.fused,
                              [&](const Tensor& q, const Tensor& k, const Tensor& v) {
                                return DocumentAttention(q, k, v, layout, c.is_causal, 0, there);
                              });
  if (expected_calls >= 0) CHECK(calls == expected_calls);
  CheckAlike(actual, Expected(drawn, layout, c), layout, tolerance);
}

TEST_CASE("a GPU attends to documents of several lengths in one call, and gives what float64 gives", "[on_gpu]") {
  if (!HasFlash()) return;
  torch::manual_seed(2);
  const auto counter = at::addThreadLocalCallback(at::RecordFunctionCallback(CountCall));
  for (const torch::Dtype dtype : {torch::kBFloat16, torch::kFloat16}) {
    const double tolerance = dtype == torch::kBFloat16 ? 6e-2 : 1e-2;
    for (size_t rows = 0; rows < std::size(kRows); ++rows) {
      const int64_t one = rows < 2 ? -1 : 1;  // for one rectangle LibTorch chooses the kernel
      for (const Heads& heads : {Heads{4, 4, 64}, Heads{14, 2, 64}, Heads{6, 1, 80}, Heads{4, 2, 128}, Heads{2, 1, 192},
                                 Heads{4, 2, 256}, Heads{3, 1, 8}}) {
        CheckOnGpu(rows, {heads, true, {}}, dtype, tolerance, one);
        CheckOnGpu(rows, {heads, true, {}, true}, dtype, tolerance, one);
        CheckOnGpu(rows, {heads, true, {}}, dtype, tolerance, rows == 0 ? -1 : 1, /*in_order=*/true);
        CheckOnGpu(rows, {heads, true, {.scale = 0.3}}, dtype, tolerance, one);
        for (const int64_t window : {1, 4, 33, 1000}) {
          CheckOnGpu(rows, {heads, true, {.window = window}}, dtype, tolerance, window < 9 ? 1 : one);
        }
        if (heads.queries == heads.keys) CheckOnGpu(rows, {heads, false, {}}, dtype, tolerance, one);
      }
    }
  }
  at::removeCallback(counter);
}

TEST_CASE("a GPU attends by rectangles where flash kernels know no way, and gives what float64 gives", "[on_gpu]") {
  if (!HasFlash()) return;
  torch::manual_seed(3);
  const auto counter = at::addThreadLocalCallback(at::RecordFunctionCallback(CountCall));
  const Heads heads = {4, 2, 64};
  for (size_t rows = 0; rows < std::size(kRows); ++rows) {
    // Products of float32 may be of fewer bits there.
    CheckOnGpu(rows, {heads, true, {}}, torch::kFloat32, 5e-3, 0);
    CheckOnGpu(rows, {heads, true, {.window = 4}}, torch::kFloat32, 5e-3, 0);
    CheckOnGpu(rows, {heads, true, {.softcap = 1.5}}, torch::kFloat16, 1e-2, 0);
    CheckOnGpu(rows, {heads, true, {.sinks = torch::randn({4})}}, torch::kFloat16, 1e-2, 0);
    if (rows > 0) CheckOnGpu(rows, {{4, 2, 12}, true, {}}, torch::kFloat16, 1e-2, -1);
  }
  at::removeCallback(counter);
}

TEST_CASE("a GPU that drops all has nothing left, in one call too", "[on_gpu]") {
  if (!HasFlash()) return;
  const torch::Device gpu(torch::kCUDA, 0);
  for (const torch::Dtype dtype : {torch::kFloat16, torch::kBFloat16, torch::kFloat32}) {
    for (const bool is_causal : {false, true}) CheckAllDropped(gpu, dtype, {}, is_causal);
    CheckAllDropped(gpu, dtype, {.window = 4}, true);
  }
}

TEST_CASE("a GPU drops in the one call of several lengths, and the same again in its backward", "[on_gpu]") {
  if (!HasFlash()) return;
  const torch::Device gpu(torch::kCUDA, 0);
  const TokenLayout layout = LayoutOfRows(kRows[2], gpu);
  torch::manual_seed(4);
  const Drawn drawn = DrawFor(layout, {4, 4, 64}, torch::kFloat16);
  // Values that are all one: each query gets what is left of its probabilities, on the average 1.
  std::vector<Tensor> values = To(drawn.values, gpu, torch::kFloat16);
  values[2].fill_(1);
  const auto run = [&](uint64_t seed) {
    torch::manual_seed(seed);
    return Run(values, torch::ones_like(drawn.gradient).to(gpu), false,
               [&](const Tensor& q, const Tensor& k, const Tensor& v) {
                 return DocumentAttention(q, k, v, layout, /*is_causal=*/false, /*dropout=*/0.25);
               });
  };
  const Attended first = run(5), again = run(5), other = run(6);
  CHECK(torch::equal(first.all[0], again.all[0]));
  CHECK_FALSE(torch::equal(first.all[0], other.all[0]));
  CHECK(first.all[0].mean().item<double>() == Approx(1).margin(0.1));
  // The values' gradients are the probabilities left, which the output has added up the other way.
  CHECK(first.all[3].sum().item<double>() == Approx(first.all[0].sum().item<double>()).epsilon(1e-2));
}

}  // namespace
}  // namespace distill
