// Models of blocks whose weights are not all in memory: whoever keeps them (shard/sharded_blocks.h) brings a block's
// before it runs and takes them away after.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

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
  // Between passes, on a rank that reads all weights, as one that saves does: those of this block are there until it
  // asks for the next one's. How the other ranks come to take part is the gate's matter.
  virtual void Fetch(size_t block) = 0;
  // Of the blocks' weights, on this rank, whatever is there at the moment.
  virtual int64_t held_bytes() const { return 0; }
};

// What is to be done about weights that a model was made without (LoadOptions::blocks_later).
inline constexpr char kComesLater[] =
    "the model was loaded without its blocks (LoadOptions::blocks_later), and they are not here yet: call LoadBlocks, "
    "or let the ranks share it out";

// Writes the values of such a weight into `values`, of its shape and on the host. Throws where they cannot be had.
using BlockSource = std::function<void(const torch::Tensor& weight, torch::Tensor values)>;

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

  // Null: no weight waits for its values. Before that the model cannot run.
  void SetBlockSource(BlockSource source) { source_ = std::move(source); }
  const BlockSource& block_source() const { return source_; }
  // Brings all that wait, for a model that is not sharded after all; nothing where none does.
  void LoadBlocks();

  // For the model and what it is made of. At the start of a forward pass:
  void BeginPass() const;
  using Forward = std::function<torch::Tensor(const torch::Tensor&)>;
  // forward(x) of a block, its weights being there, then and in the backward pass; `recomputes`: x alone is
  // kept, and the block is computed again in the backward pass.
  // Where x has no gradient and none of the block's weights is trained, nothing is kept, and there is no backward pass.
  torch::Tensor RunBlock(size_t block, Forward forward, const torch::Tensor& x, bool recomputes) const;

 private:
  // Whether a backward pass has to do with the block, though what it is given has no gradient. A model that does not
  // tell its blocks' weights may train all of them.
  bool Trains(size_t block) const;

  std::shared_ptr<WeightGate> gate_;
  BlockSource source_;
};

// The module and those in it that are a T.
template <typename T, typename Module>
std::vector<T*> PartsOf(Module& module) {
  std::vector<T*> parts;
  if (auto* whole = dynamic_cast<T*>(&module)) parts.push_back(whole);
  for (const auto& part : module.modules(/*include_self=*/false)) {
    if (auto* found = dynamic_cast<T*>(part.get())) parts.push_back(found);
  }
  return parts;
}

// Memory that a module's parameters and buffers take on devices of this type: each tensor once; of blocks behind a gate
// what the gate holds; nothing of weights that come later.
int64_t WeightBytes(const torch::nn::Module& module, c10::DeviceType type);

// Reads a module's weights one after the other, those that are kept by a gate too.
class WeightsInOrder {
 public:
  explicit WeightsInOrder(const torch::nn::Module& module);
  // From now on the weight can be read, until the next call. Throws where it cannot be had.
  void Bring(const torch::Tensor& weight);

 private:
  struct Place {
    WeightGate* gate;
    size_t block;
    bool operator==(const Place& other) const { return gate == other.gate && block == other.block; }
  };
  std::map<const c10::TensorImpl*, Place> places_;
  Place here_{nullptr, 0};
};

// Writes and syncs a file of a module's tensors, one after the other as WeightsInOrder brings them: it neither copies
// more than one on the host nor, of a model that is sharded, asks for more than a block at a time. `saved_type`:
// what the file has one of this type in. `value`, of a tensor that is there: what is written in its place, of its
// shape; null: the tensor. InvalidArgument: a type that files have no name for.
[[nodiscard]] absl::Status WriteInOrder(const torch::nn::Module& module,
                                        const std::vector<torch::OrderedDict<std::string, torch::Tensor>>& tensors,
                                        const std::string& path,
                                        absl::FunctionRef<torch::Dtype(torch::Dtype)> saved_type,
                                        const std::function<torch::Tensor(const torch::Tensor& tensor)>& value = {});

}  // namespace distill
