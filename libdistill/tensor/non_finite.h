// Where a loss that is not finite came from: the first module whose output is not, found by running the pass once more
// and looking at what each operation gives.
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

}  // namespace distill
