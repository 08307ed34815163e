// Models of blocks whose weights are not all in memory: whoever keeps them (train/sharded_blocks.h) brings a block's
// before it runs and takes them away after.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <torch/types.h>

namespace distill {

// A pass runs blocks 0, 1, ... of a model; with gradients its backward pass follows, in the other direction. Used by
// the thread that runs the model, and by autograd's in the backward pass; all of it throws where weights cannot be had.
class WeightGate {
 public:
  virtual ~WeightGate() = default;
  virtual void BeginPass(bool with_gradients) = 0;
  // Blocks until the block's weights are there. They stay until Release.
  virtual void Acquire(size_t block) = 0;
  virtual void Release(size_t block) = 0;
};

// What a model has to tell for its weights to be kept apart.
class GatedModel {
 public:
  virtual ~GatedModel() = default;
  // The weights of each block, in the order in which a pass runs them; empty for a model that asks no gate. Weights of
  // no block (embeddings, heads) are always there.
  virtual std::vector<std::vector<torch::Tensor>> BlockWeights() const { return {}; }
  // Asked in every pass from now on; null: all weights are there.
  void SetWeightGate(std::shared_ptr<WeightGate> gate) { gate_ = std::move(gate); }
  const std::shared_ptr<WeightGate>& weight_gate() const { return gate_; }

 protected:
  // At the start of a forward pass.
  void BeginPass() const {
    if (gate_ != nullptr) gate_->BeginPass(torch::GradMode::is_enabled());
  }
  using Forward = std::function<torch::Tensor(const torch::Tensor&)>;
  // forward(x) of a block, its weights being there, then and in the backward pass; `recomputes`: as by Recomputed.
  torch::Tensor RunBlock(size_t block, Forward forward, const torch::Tensor& x, bool recomputes) const;

 private:
  std::shared_ptr<WeightGate> gate_;
};

}  // namespace distill
