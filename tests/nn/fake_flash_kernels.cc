#include "tests/nn/fake_flash_kernels.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/library.h>

#include <future>
#include <optional>
#include <tuple>
#include <vector>

#include "libdistill/nn/tiled_attention.h"

namespace distill::testing {
namespace {

using torch::Tensor;

int64_t forwards = 0, backwards = 0;

struct Call {
  Tensor begins;
  int64_t longest;
  bool is_causal;
  std::optional<double> scale;
  std::optional<int64_t> before, behind;
};

std::optional<int64_t> NumberOf(const std::optional<c10::SymInt>& x) {
  return x.has_value() ? std::optional(x->expect_int()) : std::nullopt;
}

void Check(const Call& call, const Tensor& query) {
  TORCH_CHECK(call.begins.scalar_type() == torch::kInt32 && call.begins.is_contiguous() && call.begins.numel() > 1);
  TORCH_CHECK(call.begins[0].item<int64_t>() == 0 && call.begins[-1].item<int64_t>() == query.size(0));
  const Tensor lengths = call.begins.diff();
  TORCH_CHECK(lengths.min().item<int64_t>() > 0 && lengths.max().item<int64_t>() == call.longest);
  TORCH_CHECK(!call.before.has_value() || (call.is_causal && call.behind == 0));
}

// [P, A, D]
Tensor Attend(const Call& call, const Tensor& query, const Tensor& keys, const Tensor& values) {
  TiledAttention options = {.is_causal = call.is_causal};
  options.traits.scale = call.scale.value_or(0);
  options.traits.window = call.before.has_value() ? *call.before + 1 : 0;
  std::vector<Tensor> parts;
  for (int64_t i = 0; i + 1 < call.begins.numel(); ++i) {
    const int64_t begin = call.begins[i].item<int64_t>(), end = call.begins[i + 1].item<int64_t>();
    const auto part = [&](const Tensor& x) { return x.narrow(0, begin, end - begin).transpose(0, 1).unsqueeze(0); };
    parts.push_back(AttendReference(part(query), part(keys), part(values), options).squeeze(0).transpose(0, 1));
  }
  return torch::cat(parts).contiguous();
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> Forward(
    const Tensor& query, const Tensor& keys, const Tensor& values, const std::optional<Tensor>& begins,
    const std::optional<Tensor>&, c10::SymInt longest, c10::SymInt, double, bool is_causal, bool,
    std::optional<double> scale, std::optional<c10::SymInt> before, std::optional<c10::SymInt> behind,
    const std::optional<Tensor>&, const std::optional<Tensor>&) {
  ++forwards;
  const Call call = {*begins, longest.expect_int(), is_causal, scale, NumberOf(before), NumberOf(behind)};
  Check(call, query);
  const Tensor none = torch::empty({0});
  return {Attend(call, query, keys, values), torch::zeros({query.size(1), query.size(0)}), none, none, none};
}

std::tuple<Tensor, Tensor, Tensor> Backward(const Tensor& gradient, const Tensor& query, const Tensor& keys,
                                            const Tensor& values, const Tensor&, const Tensor&, const Tensor& begins,
                                            const Tensor&, c10::SymInt longest, c10::SymInt, double, bool is_causal,
                                            const Tensor&, const Tensor&, std::optional<double> scale,
                                            std::optional<c10::SymInt> before, std::optional<c10::SymInt> behind) {
  ++backwards;
  const Call call = {begins, longest.expect_int(), is_causal, scale, NumberOf(before), NumberOf(behind)};
  Check(call, query);
  // On a thread of its own, since this one is below autograd.
  const auto differentiate = [&] {
    const auto leaf = [](const Tensor& x) { return x.detach().requires_grad_(); };
    const Tensor q = leaf(query), k = leaf(keys), v = leaf(values);
    return torch::autograd::grad({Attend(call, q, k, v)}, {q, k, v}, {gradient});
  };
  const std::vector<Tensor> gradients = std::async(std::launch::async, differentiate).get();
  return {gradients[0], gradients[1], gradients[2]};
}

}  // namespace

int64_t FlashForwards() { return forwards; }
int64_t FlashBackwards() { return backwards; }

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("_flash_attention_forward", &Forward);
  library.impl("_flash_attention_backward", &Backward);
}

}  // namespace distill::testing
