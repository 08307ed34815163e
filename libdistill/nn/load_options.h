// How a model of any family comes out of a Hugging Face folder.
#pragma once

#include <string>

#include <torch/types.h>

namespace distill {

struct LoadOptions {
  torch::Dtype dtype = torch::kFloat32;
  torch::Device device = torch::kCPU;
};

// Whether the folder holds weights that the loaders would read.
bool HasWeights(const std::string& folder);

}  // namespace distill
