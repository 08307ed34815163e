// Models whose gradients are small whole numbers, so that their sums are exact in any order and can be compared with
// ==.
#pragma once

#include <cstdint>
#include <vector>

#include <torch/nn/module.h>

#include "libdistill/train/parameters.h"

namespace distill::testing {

struct NetKind {
  const char* name;
  bool tied = false;      // the first matrix is an embedding and the head as well
  bool sparse = false;    // the embedding's gradient is sparse
  bool branches = false;  // ranks and steps differ in the parameters that they use, and nobody uses one of them
  bool bf16 = false;
  bool half_bf16 = false;  // every other parameter
  int64_t words = 7;
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
};

std::vector<TrainedParameter> ParametersOf(const Net& net);

}  // namespace distill::testing
