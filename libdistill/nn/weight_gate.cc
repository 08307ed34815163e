#include "libdistill/nn/weight_gate.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <set>

#include "libdistill/core/status_macros.h"
#include "libdistill/store/safetensors.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/random_state.h"
#include "libdistill/tensor/unbacked.h"

namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using BlockForward = GatedModel::Forward;

// x, which has gradients, and in the backward pass `action` once that of x is known.
Tensor OnBackward(const Tensor& x, const std::function<void()>& action) {
  Tensor same = x.view_as(x);
  same.register_hook([action](const Tensor&) { action(); });
  return same;
}

// A function that the graph can keep.
struct KeptForward : torch::CustomClassHolder {
  explicit KeptForward(BlockForward forward) : forward(std::move(forward)) {}
  const BlockForward forward;
};

struct RecomputedFunction : torch::autograd::Function<RecomputedFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& input, BlockForward forward) {
    context->save_for_backward({input, RandomState(input.device())});
    Tensor output = forward(input);  // gradients are off here
    context->saved_data["forward"] = c10::IValue::make_capsule(c10::make_intrusive<KeptForward>(std::move(forward)));
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto kept = c10::static_intrusive_pointer_cast<KeptForward>(context->saved_data["forward"].toCapsule());
    const variable_list saved = context->get_saved_variables();
    const Tensor input = saved[0].detach().requires_grad_();
    {
      const torch::AutoGradMode with_gradients(true);
      Tensor output;
      {
        const RandomStateScope as_before(input.device(), saved[1]);
        output = kept->forward(input);
      }
      // Parameters get theirs in this call, a leaf of the graph each; so does the input.
      torch::autograd::backward({output}, {grads[0]});
    }
    return {input.grad(), Tensor()};
  }
};

// Activation checkpointing (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"): forward(input), with
// the gradients that calling it would give, the parameters' that it uses included. In the backward pass it runs once
// more, and its own backward right after. It must compute the same bits both times: what it draws from the default
// generator of the input's device, as dropout does, is drawn once more from the same state. Without gradients being
// taken it is just called.
Tensor Recomputed(BlockForward forward, const Tensor& input) {
  if (!torch::GradMode::is_enabled()) return forward(input);
  // Where what came before is frozen there would be no node in the graph, and no gradient for the parameters here.
  const Tensor start = input.requires_grad() ? input : input.detach().requires_grad_();
  return RecomputedFunction::apply(start, std::move(forward));
}

}  // namespace

void GatedModel::BeginPass() const {
  if (source_ != nullptr) {
    throw StatusError(absl::FailedPreconditionError(
        "a model runs whose blocks are not loaded yet (LoadOptions::blocks_later): share it out, or call LoadBlocks"));
  }
  if (gate_ != nullptr) gate_->BeginPass(torch::GradMode::is_enabled());
}

void GatedModel::LoadBlocks() {
  if (source_ == nullptr) return;
  const torch::NoGradGuard no_grad;
  for (const auto& weights : BlockWeights()) {
    for (Tensor weight : weights) {
      if (HasMemory(weight)) continue;
      const Tensor values = torch::empty(weight.sizes(), torch::TensorOptions(weight.scalar_type()));
      source_(weight, values);
      weight.set_data(values.to(weight.device()));
    }
  }
  source_ = nullptr;
}

bool GatedModel::Trains(size_t block) const {
  const auto weights = BlockWeights();
  return block >= weights.size() || std::any_of(weights[block].begin(), weights[block].end(),
                                                [](const Tensor& weight) { return weight.requires_grad(); });
}

Tensor GatedModel::RunBlock(size_t block, Forward forward, const Tensor& x, bool recomputes) const {
  if (torch::GradMode::is_enabled() && !x.requires_grad() && !Trains(block)) {
    const torch::NoGradGuard below_all_that_is_trained;
    return RunBlock(block, std::move(forward), x, /*recomputes=*/false);
  }
  if (gate_ == nullptr) return recomputes ? Recomputed(std::move(forward), x) : forward(x);
  const auto with_weights = [gate = gate_, block, forward = std::move(forward)](const Tensor& before) {
    gate->Acquire(block);
    if (torch::GradMode::is_enabled()) {
      // The gradient of what went in is the last thing that a block's backward pass makes with its weights.
      return forward(OnBackward(before, [gate, block] { gate->Release(block); }));
    }
    Tensor after = forward(before);
    gate->Release(block);
    return after;
  };
  if (!torch::GradMode::is_enabled()) return with_weights(x);
  if (recomputes) return Recomputed(with_weights, x);
  // Where what came before is frozen the backward pass must get here nevertheless.
  const Tensor after = with_weights(x.requires_grad() ? x : x.detach().requires_grad_());
  gate_->Release(block);
  return OnBackward(after, [gate = gate_, block] { gate->Acquire(block); });
}

int64_t WeightBytes(const torch::nn::Module& module, c10::DeviceType type) {
  int64_t bytes = 0;
  std::set<const void*> seen;  // tensors and gates
  for (const auto* gated : PartsOf<const GatedModel>(module)) {
    const WeightGate* gate = gated->weight_gate().get();
    if (gate == nullptr) continue;
    if (seen.insert(gate).second) bytes += gate->held_bytes();
    for (const auto& weights : gated->BlockWeights()) {
      for (const Tensor& weight : weights) seen.insert(weight.unsafeGetTensorImpl());
    }
  }
  const auto add = [&](const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) {
      if (tensor.device().type() != type || !HasMemory(tensor)) continue;
      if (seen.insert(tensor.unsafeGetTensorImpl()).second) bytes += static_cast<int64_t>(tensor.nbytes());
    }
  };
  add(module.parameters());
  add(module.buffers());
  return bytes;
}

WeightsInOrder::WeightsInOrder(const torch::nn::Module& module) {
  for (const auto* gated : PartsOf<const GatedModel>(module)) {
    if (gated->weight_gate() == nullptr) continue;
    size_t block = 0;
    for (const auto& weights : gated->BlockWeights()) {
      for (const Tensor& weight : weights) places_[weight.unsafeGetTensorImpl()] = {gated->weight_gate().get(), block};
      ++block;
    }
  }
}

void WeightsInOrder::Bring(const Tensor& weight) {
  const auto found = places_.find(weight.unsafeGetTensorImpl());
  if (found == places_.end()) {
    if (HasMemory(weight)) return;
    throw StatusError(absl::FailedPreconditionError(kComesLater));
  }
  if (found->second == here_) return;
  found->second.gate->Fetch(found->second.block);
  here_ = found->second;
}

absl::Status WriteInOrder(const torch::nn::Module& module,
                          const std::vector<torch::OrderedDict<std::string, torch::Tensor>>& tensors,
                          const std::string& path, absl::FunctionRef<torch::Dtype(torch::Dtype)> saved_type,
                          const std::function<torch::Tensor(const torch::Tensor& tensor)>& value) {
  std::map<std::string, torch::Tensor> by_name;
  std::map<std::string, TensorView> views;
  for (const auto& items : tensors) {
    for (const auto& item : items) {
      const torch::Tensor& tensor = by_name[item.key()] = item.value();
      DISTILL_ASSIGN_OR_RETURN(const DType dtype, FromTorch(saved_type(tensor.scalar_type())));
      views[item.key()] = {dtype, tensor.sizes().vec(), nullptr, tensor.numel() * SizeOf(dtype)};
    }
  }
  WeightsInOrder weights(module);
  return WriteSafetensors(path, views, {{"format", "pt"}},  // transformers asks for this entry
                          [&](const std::string& name, ByteSink sink) {
                            return CatchTorch([&] {
                              const torch::Tensor& tensor = by_name[name];
                              weights.Bring(tensor);
                              const torch::Tensor on_host =
                                  ToHost(value != nullptr ? value(tensor) : tensor, saved_type(tensor.scalar_type()));
                              return sink({static_cast<const char*>(on_host.const_data_ptr()), on_host.nbytes()});
                            });
                          });
}

}  // namespace distill
