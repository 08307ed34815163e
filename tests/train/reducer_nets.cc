#include "tests/train/reducer_nets.h"

#include "absl/strings/str_cat.h"

namespace distill::testing {
namespace {

constexpr int64_t kWidth = 4, kLayers = 4;

// Whole numbers from -1 to 1, the same for the same seed.
torch::Tensor Small(c10::IntArrayRef shape, int64_t seed) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  return torch::randint(-1, 2, shape).to(torch::kFloat32);
}

}  // namespace

const std::vector<NetKind>& AllNetKinds() {
  static const std::vector<NetKind> kinds = {
      {.name = "plain"},
      {.name = "tied", .tied = true},
      {.name = "sparse", .sparse = true},
      {.name = "branches", .branches = true},
      {.name = "bf16", .bf16 = true},
      {.name = "tied branches, half in bf16", .tied = true, .branches = true, .half_bf16 = true}};
  return kinds;
}

Net::Net(const NetKind& kind) : kind(kind) {
  unused = register_parameter("unused", Small({3}, 1));
  for (int64_t l = 0; l < kLayers; ++l) {
    layers.push_back(register_parameter(absl::StrCat("layer", l), Small({kWidth, kWidth}, 10 + l)));
  }
  embedding = register_parameter("embedding", Small({kind.words, kWidth}, 2));
  head = kind.tied ? register_parameter("head", embedding) : register_parameter("head", Small({kind.words, kWidth}, 3));
  bias = register_parameter("bias", Small({kind.words}, 4));
  int64_t i = 0;
  for (torch::Tensor& parameter : parameters()) {
    if (kind.bf16 || (kind.half_bf16 && ++i % 2 == 0)) parameter.set_data(parameter.to(torch::kBFloat16));
  }
}

torch::Tensor Net::Loss(int64_t rank, int64_t step, int64_t micro_batch) {
  const int64_t seed = 1000 + rank * 100 + step * 10 + micro_batch;
  torch::manual_seed(static_cast<uint64_t>(seed));
  const torch::Tensor ids = torch::randint(0, kind.words, {3});
  const auto as_float = [](const torch::Tensor& x) { return x.to(torch::kFloat32); };
  torch::Tensor x = as_float(torch::embedding(embedding, ids, /*padding_idx=*/-1, false, kind.sparse));
  for (int64_t l = 0; l < kLayers; ++l) {
    if (kind.branches && (seed + l) % 3 == 0) continue;
    x = torch::clamp(x.matmul(as_float(layers[static_cast<size_t>(l)])), -1, 1);
  }
  torch::Tensor logits = x.matmul(as_float(head).t()) + as_float(bias);
  if (!kind.branches) logits = logits + as_float(unused).sum();
  return (logits * Small(logits.sizes(), seed + 5)).sum();
}

std::vector<TrainedParameter> ParametersOf(const Net& net) { return CollectParameters(net, {}).value(); }

}  // namespace distill::testing
