#include "libdistill/nn/tiled_attention.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "libdistill/core/dtype.h"
#include "libdistill/nn/attention_sweep.h"
#include "libdistill/tensor/convert.h"
#include "tests/nn/drop_reference.h"
#include "tests/nn/sweep_kinds.h"
#include "tests/support/catch.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

struct Shape {
  int64_t documents, heads, tokens, width;
  int64_t shared = 1;  // heads that have keys in common
};
// Many heads in a tile, also of two documents; one head; several tiles of a head, the last one shorter. With shared
// keys: all heads of a group in a tile, whole heads of which one fills a tile, and several tiles of a head.
constexpr Shape kShapes[] = {{1, 1, 1, 1},    {3, 2, 7, 5},     {2, 12, 128, 64},  {1, 3, 130, 16},  {1, 2, 700, 8},
                             {2, 1, 450, 24}, {2, 6, 33, 8, 3}, {1, 4, 300, 8, 4}, {2, 4, 450, 8, 2}};

struct Attended {
  Tensor output;
  std::array<Tensor, 3> gradients;
};

// Leaves of their own, transposed as those of a model are.
template <typename Attend>
Attended Run(const std::array<Tensor, 3>& inputs, const Tensor& gradient, torch::Dtype dtype, const Attend& attend) {
  std::array<Tensor, 3> leaves;
  for (size_t i = 0; i < 3; ++i) leaves[i] = inputs[i].to(dtype).transpose(1, 2).contiguous().requires_grad_();
  const Tensor output = attend(leaves[0].transpose(1, 2), leaves[1].transpose(1, 2), leaves[2].transpose(1, 2));
  output.backward(gradient.to(dtype));
  Attended attended = {output.detach(), {}};
  for (size_t i = 0; i < 3; ++i) attended.gradients[i] = leaves[i].grad().transpose(1, 2);
  return attended;
}

std::string Name(const Shape& shape, torch::Dtype dtype, const TiledAttention& options) {
  return absl::StrCat(shape.documents, "x", shape.heads, "x", shape.tokens, "x", shape.width, "/", shape.shared, " ",
                      c10::toString(dtype), " window ", options.traits.window, " cap ", options.traits.softcap,
                      options.traits.sinks.defined() ? " sinks" : "", options.is_causal ? " causal" : "",
                      options.real_keys.empty() ? "" : " padded", options.dropping.has_value() ? " dropping" : "");
}

void Compare(const Shape& shape, torch::Dtype dtype, const TiledAttention& options) {
  INFO(Name(shape, dtype, options));
  const auto [documents, heads, tokens, width, shared] = shape;
  std::array<Tensor, 3> inputs;
  for (size_t i = 0; i < 3; ++i) {
    inputs[i] = torch::randn({documents, i == 0 ? heads : heads / shared, tokens, width}).to(dtype);
  }
  const Tensor gradient = torch::randn({documents, heads, tokens, width}).to(dtype);
  Tensor factors;
  if (options.dropping.has_value()) {
    factors = DropFactors(*options.dropping, documents * heads * tokens, tokens)
                  .view({documents, heads, tokens, tokens})
                  .to(torch::kFloat64);
  }
  const Attended actual = Run(inputs, gradient, dtype, [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return AttendByTiles(q, k, v, options);
  });
  const Attended expected = Run(
      inputs, gradient, torch::kFloat64,
      [&](const Tensor& q, const Tensor& k, const Tensor& v) { return AttendReference(q, k, v, options, factors); });
  const double tolerance = dtype == torch::kFloat32 ? 2e-6 : dtype == torch::kFloat16 ? 2e-3 : 3e-2;
  CHECK(RelativeError(actual.output, expected.output) < tolerance);
  for (size_t i = 0; i < 3; ++i) {
    INFO("gradient " << i);
    // Those of one token's query and key are nothing but rounding.
    if (tokens > 1 || i == 2) CHECK(RelativeError(actual.gradients[i], expected.gradients[i]) < tolerance);
  }
}

TEST_CASE("attention by tiles and its gradients are those of whole matrices in float64") {
  torch::manual_seed(1);
  for (const Shape& shape : kShapes) {
    for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
      for (const bool is_causal : {false, true}) {
        for (const bool pads : {false, true}) {
          for (const bool drops : {false, true}) {
            TiledAttention options = {.is_causal = is_causal};
            for (int64_t i = 0; pads && i < shape.documents; ++i) {
              options.real_keys.push_back(std::max<int64_t>(1, shape.tokens - 3 * i - 1));
            }
            if (drops) options.dropping = Dropping{99, 13107, 1.25F};
            Compare(shape, dtype, options);
          }
        }
      }
    }
  }
}

// What families' layers do beside a plain softmax, of which `traits` makes each by itself and all at once.
std::vector<AttentionTraits> Traits(const Shape& shape) {
  const AttentionTraits all = {.scale = 0.3,
                               .softcap = 1.5,
                               .window = std::max<int64_t>(1, shape.tokens / 3),
                               .sinks = torch::randn({shape.heads})};
  return {{.scale = all.scale}, {.softcap = all.softcap}, {.window = all.window},
          {.window = 2},        {.sinks = all.sinks},     all};
}

TEST_CASE("attention by tiles with windows, caps, sinks and scales is that of whole matrices in float64") {
  torch::manual_seed(7);
  for (const Shape& shape : kShapes) {
    for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
      for (const AttentionTraits& traits : Traits(shape)) {
        for (const bool drops : {false, true}) {
          TiledAttention options = {.traits = traits, .is_causal = true};
          if (drops) options.dropping = Dropping{99, 13107, 1.25F};
          Compare(shape, dtype, options);
        }
      }
    }
  }
}

TEST_CASE("attention by tiles of nothing is nothing") {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{0, 2, 7, 5}, {2, 2, 0, 4}, {2, 0, 3, 4}}) {
    const Tensor query = torch::randn(shape).requires_grad_();
    const Tensor output = AttendByTiles(query, query, query, {});
    CHECK(output.sizes() == query.sizes());
    output.sum().backward();
    CHECK(query.grad().sizes() == query.sizes());
  }
}

TEST_CASE("attention by tiles is the same to the last bit on any number of threads") {
  torch::manual_seed(2);
  const Tensor query = torch::randn({3, 5, 200, 16}), keys = torch::randn_like(query),
               values = torch::randn_like(query);
  const TiledAttention options = {.dropping = Dropping{4, 6554, 1.1F}};
  const int before = at::get_num_threads();
  std::vector<Attended> runs;
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    runs.push_back(
        Run({query, keys, values}, values, torch::kFloat32,
            [&](const Tensor& q, const Tensor& k, const Tensor& v) { return AttendByTiles(q, k, v, options); }));
  }
  at::set_num_threads(before);
  for (const Attended& run : runs) {
    CHECK(torch::equal(run.output, runs[0].output));
    for (size_t i = 0; i < 3; ++i) CHECK(torch::equal(run.gradients[i], runs[0].gradients[i]));
  }
}

// Scores so far apart that powers of them would overflow, and what is not finite.
TEST_CASE("each CPU's softmax of scores is that of float64, and the gradient through it") {
  torch::manual_seed(3);
  for (const auto& sweeps : DISTILL_KINDS_OF_THIS_CPU(kAttentionSweeps)) {
    for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16}) {
      for (const int64_t keys : {1, 15, 16, 129, 300}) {
        for (const double deviation : {1.0, 1e3}) {
          INFO(sweeps.name << ", " << dtype << ", " << keys << ", " << deviation);
          const Dropping dropping = {11, 20000, 1.4F};
          const Tensor scores = torch::randn({4, keys}).mul_(deviation).to(dtype),
                       g = torch::randn({4, keys}).to(dtype);
          Tensor written = scores.clone(), again = scores.clone(), gradients = g.clone();
          Tensor log_sums = torch::empty({4}), scratch = torch::empty({3 * (keys + kDropBlock)});
          ScoreRows rows = {.dtype = FromTorch(dtype).value(),
                            .keys = keys,
                            .queries = 4,
                            .tokens = keys,
                            .heads = 4,
                            .scale = 0.5F,
                            .dropping = dropping,
                            .scores = written.mutable_data_ptr(),
                            .log_sums = log_sums.mutable_data_ptr<float>(),
                            .gradients = gradients.mutable_data_ptr(),
                            .scratch = scratch.mutable_data_ptr<float>()};
          sweeps.of.probabilities(rows, 0, 1);
          sweeps.of.probabilities(rows, 1, 4);
          rows.scores = again.mutable_data_ptr();
          sweeps.of.probabilities_again(rows, 0, 4);
          const Tensor wide = scores.to(torch::kFloat64).requires_grad_();
          const Tensor expected = at::softmax(wide * 0.5, -1) * DropFactors(dropping, 4, keys).to(torch::kFloat64);
          expected.backward(g.to(torch::kFloat64));
          const double tolerance = dtype == torch::kFloat32 ? 1e-4 : 1e-2;
          CHECK(RelativeError(written, expected) < tolerance);
          CHECK(RelativeError(again, expected) < tolerance);
          // Where one key has all of it the gradient is the difference of nearly equal numbers.
          if (keys > 1 && deviation == 1) CHECK(RelativeError(gradients, wide.grad()) < tolerance);
        }
      }
    }
  }
}

}  // namespace
}  // namespace distill
