// What a language model and the reducer of its gradients arrange with one another before a backward pass.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <torch/nn/module.h>

#include "libdistill/gradients/gradient_reducer.h"
#include "libdistill/gradients/parameters.h"
#include "libdistill/nn/language_model.h"

namespace distill {

// The parameter that is embedding and head of a model among the module's parts which gives its rows' gradients to a
// sink, for GradientReducerOptions::rows_of; -1: none.
int64_t TiedTable(const torch::nn::Module& module, const std::vector<TrainedParameter>& parameters);

// Gives a sink to the module and its parts that can use one (nn/gradient_sink.h), until another one is given: losses
// borrow memory for the head's gradient in the reducer's buckets, and the gradients of rows that are looked up go to
// the reducer where it takes them. Once the reducer is gone autograd has all gradients again.
void GiveGradientsTo(const std::shared_ptr<GradientReducer>& reducer, torch::nn::Module& module);

}  // namespace distill
