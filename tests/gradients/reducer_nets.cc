#include "tests/gradients/reducer_nets.h"

#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "tests/support/ranks.h"

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
  torch::Tensor rows = torch::embedding(take_rows ? embedding.detach() : embedding, ids, -1, false, kind.sparse);
  if (take_rows) {
    rows.requires_grad_().register_hook([this, ids](const torch::Tensor& gradients) { take_rows(ids, gradients); });
  }
  torch::Tensor x = as_float(rows);
  for (int64_t l = 0; l < kLayers; ++l) {
    if (kind.branches && (seed + l) % 3 == 0) continue;
    x = torch::clamp(x.matmul(as_float(layers[static_cast<size_t>(l)])), -1, 1);
  }
  if (kind.headless) return (x * Small(x.sizes(), seed + 5)).sum();
  torch::Tensor logits = x.matmul(as_float(head).t()) + as_float(bias);
  if (!kind.branches) logits = logits + as_float(unused).sum();
  return (logits * Small(logits.sizes(), seed + 5)).sum();
}

std::vector<TrainedParameter> ParametersOf(const Net& net) { return CollectParameters(net, {}).value(); }

absl::Status CheckNorm(const GradientBuckets& buckets, const std::vector<torch::Tensor>& gradients,
                       const std::string& what) {
  double square = 0;
  for (const torch::Tensor& gradient : gradients) square += gradient.to(torch::kFloat64).square().sum().item<double>();
  return Expect(std::abs(buckets.Norm() - std::sqrt(square)) <= 1e-9 * std::sqrt(square),
                absl::StrCat(what, ": the norm is ", buckets.Norm(), ", not ", std::sqrt(square)));
}

absl::StatusOr<std::unique_ptr<Communicator>> Meet(const World& world, BackendPreference backend) {
  torch::set_num_threads(1);
  setenv("FI_TCP_IFACE", "lo", 1);
  return CreateCommunicator(world, {.backend = backend, .timeout = absl::Seconds(60)});
}

bool HasTokens(const Communicator& comm, int64_t step) {
  return comm.world_size() == 1 || (step + comm.rank()) % 4 != 0;
}

absl::StatusOr<std::vector<torch::Tensor>> PlainSums(Communicator& comm, const NetKind& kind, int64_t step,
                                                     int64_t micro_batches) {
  Net net(kind);
  const auto parameters = ParametersOf(net);
  std::vector<torch::Tensor> sums;
  for (const auto& parameter : parameters) sums.push_back(torch::zeros(parameter.tensor.sizes()));
  for (int64_t m = 0; m < micro_batches && HasTokens(comm, step); ++m) {
    net.Loss(comm.rank(), step, m).backward();
    for (size_t i = 0; i < parameters.size(); ++i) {
      torch::Tensor tensor = parameters[i].tensor;
      if (tensor.grad().defined()) sums[i].add_(tensor.grad().to_dense());
      tensor.mutable_grad() = torch::Tensor();
    }
  }
  for (torch::Tensor& sum : sums) DISTILL_RETURN_IF_ERROR(AllReduceSum(comm, sum));
  return sums;
}

}  // namespace distill::testing
