// Models whose gradients are small whole numbers, so that their sums are exact in any order and can be compared with
// ==.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/comm/preferences.h"
#include "libdistill/gradients/gradient_buckets.h"
#include "libdistill/gradients/parameters.h"
#include "libdistill/world/world.h"

namespace distill::testing {

struct NetKind {
  const char* name;
  bool tied = false;      // the first matrix is an embedding and the head as well
  bool sparse = false;    // the embedding's gradient is sparse
  bool branches = false;  // ranks and steps differ in the parameters that they use, and nobody uses one of them
  bool bf16 = false;
  bool half_bf16 = false;  // every other parameter
  int64_t words = 7;
  bool headless = false;  // the loss is one of the last layer's states
};

const std::vector<NetKind>& AllNetKinds();

// Six matrices, registered in another order than a backward pass meets them, and two biases.
struct Net : torch::nn::Module {
  explicit Net(const NetKind& kind);
  // Depends on its three arguments only.
  torch::Tensor Loss(int64_t rank, int64_t step, int64_t micro_batch);

  NetKind kind;
  torch::Tensor embedding, head, bias, unused;
  std::vector<torch::Tensor> layers;
  // If set: what takes the gradients of the embedding's rows, in place of autograd.
  std::function<void(const torch::Tensor& ids, const torch::Tensor& gradients)> take_rows;
};

std::vector<TrainedParameter> ParametersOf(const Net& net);

// Whether the reducer's norm is that of the whole gradients; `what`: for the error.
absl::Status CheckNorm(const GradientBuckets& buckets, const std::vector<torch::Tensor>& gradients,
                       const std::string& what);

// One thread a rank, and over a fabric loopback.
absl::StatusOr<std::unique_ptr<Communicator>> Meet(const World& world, BackendPreference backend);

// Ranks take their turns at having nothing to do; rank 0 does in the first step.
bool HasTokens(const Communicator& comm, int64_t step);

// The reference: every micro-batch's gradients added up in float32, then each parameter's summed over ranks.
absl::StatusOr<std::vector<torch::Tensor>> PlainSums(Communicator& comm, const NetKind& kind, int64_t step,
                                                     int64_t micro_batches);

}  // namespace distill::testing
