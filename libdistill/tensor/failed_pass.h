// Where in a model a pass failed, found by running it once more and looking at each operation: the first output that is
// not finite, or the operation that throws.
#pragma once

#include <string>

#include <torch/nn/module.h>

#include "absl/functional/function_ref.h"

namespace distill {

// Runs `pass`, which computes with the module's parameters, on this thread. Says "first in the output of
// layers.3.mlp.down_proj (aten::linear)"; or "first in the weights of" it, or "first in what is given to" it, where the
// batch or what no operation of LibTorch computes was not finite; empty where all is finite. An operation without a
// parameter counts to the module whose parameter was used before it. A NaN or +infinity counts; -infinity does not,
// since masks are made of it. Slow: for a pass that failed.
std::string FirstNonFinite(const torch::nn::Module& module, absl::FunctionRef<void()> pass);

// The same of a pass that throws: says "in layers.3.mlp.down_proj (aten::addmm)"; empty where it throws nothing.
std::string WhereItThrows(const torch::nn::Module& module, absl::FunctionRef<void()> pass);

}  // namespace distill
