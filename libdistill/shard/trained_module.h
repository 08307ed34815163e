// A module while it is trained: its parameters, whole or sharded, their optimizer, and the reducer of their gradients.
//
//   TrainedModule trained(comm, module, {.device = device, .zero_stage = 2});
//   ... trained.FindParameters(rows), MakeOptimizer(), MakeReducer(...), then steps ...
//   trained.Release();
//   DISTILL_RETURN_IF_ERROR(trained.Unshard());
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/gradients/adamw.h"
#include "libdistill/gradients/gradient_reducer.h"
#include "libdistill/gradients/parameters.h"
#include "libdistill/nn/weight_gate.h"
#include "libdistill/shard/flat_parameters.h"
#include "libdistill/shard/ordered_save.h"
#include "libdistill/shard/training_sizes.h"

namespace distill {

class TrainedModule {
 public:
  struct Options {
    c10::Device device = torch::kCPU;
    torch::Dtype dtype = torch::kFloat32;  // of the weights in use; kFloat32 leaves them in the type that they have
    int zero_stage = 0;                    // TrainerOptions::zero_stage; 0 on one rank
    int64_t bucket_bytes = 25 << 20;
    GradientCompression compression = GradientCompression::kNone;
    AdamWOptions adamw = {};
    // What the task holds beside the module, for Explained; null: nothing.
    std::function<NamedBytes()> besides = nullptr;
  };
  TrainedModule(Communicator& comm, std::shared_ptr<torch::nn::Module> module, const Options& options)
      : comm_(comm), module_(std::move(module)), options_(options) {}

  // Of this rank alone. `rows`: of parameters of which the first rows alone are trained. InvalidArgument: a group of
  // adamw.groups without parameters; float16 without a loss scale; stage 3 of a module without blocks, or with the
  // blocks of two models.
  [[nodiscard]] absl::Status FindParameters(const std::map<std::string, int64_t>& rows);
  // Every rank must call these, in this order. With the second the module's gradients go to the reducer. `order`: in
  // which gradients came in the run that is resumed (GradientReducerOptions).
  [[nodiscard]] absl::Status MakeOptimizer();
  [[nodiscard]] absl::Status MakeReducer(const std::vector<int64_t>& order, bool losses_are_final);

  torch::nn::Module& module() { return *module_; }
  AdamW& optimizer() { return *optimizer_; }
  GradientReducer& reducer() { return *reducer_; }
  FlatParameters* flat() { return flat_.get(); }  // null: each rank updates all of them
  // Null: weights are whole on every rank.
  std::shared_ptr<ShardedBlocks> blocks() const { return flat_ != nullptr ? flat_->blocks() : nullptr; }

  // Where memory ran out, the error with what this training takes of it (WithTrainingSizes); of this rank alone.
  absl::Status Explained(const absl::Status& error, const std::optional<MemoryOfFailedPass>& pass = {}) const;
  // What a checkpoint keeps: weights, moments, buffers.
  TensorState Tensors() const;
  // At the end of a run; every rank must call it. Internal on all where a value of these is not finite on one; names
  // it.
  [[nodiscard]] absl::Status RequireFinite() const;
  // After those were read anew. Every rank must call it. FailedPrecondition: what is frozen is not what it was there.
  [[nodiscard]] absl::Status UseRestoredTensors();
  // Runs `body` where rank 0 can save the module: with blocks that come one by one (shard/ordered_save.h) or, for a
  // writer that may look at any weight, with all of them on rank 0 and null. Every rank must call it.
  [[nodiscard]] absl::Status WithModuleToSave(bool writes_whole,
                                              absl::FunctionRef<absl::Status(ShardedBlocks* in_order)> body);
  // Lets go of optimizer and reducer.
  void Release();
  // Makes a sharded module whole again. Every rank must call it. ResourceExhausted: there is no memory for it.
  [[nodiscard]] absl::Status Unshard();

 private:
  absl::Status FindBlocks();
  absl::Status MakeWholeOptimizer();
  absl::Status MakeShardedOptimizer();
  absl::Status LoadUntrained();
  // Before it is narrowed, so that a run in another type has the same.
  void NoteFrozen();

  Communicator& comm_;
  const std::shared_ptr<torch::nn::Module> module_;
  const Options options_;
  std::vector<TrainedParameter> parameters_;
  torch::Tensor frozen_, frozen_of_checkpoint_;  // HashOfFrozen of this run, and what a checkpoint is read into
  GatedModel* gated_ = nullptr;                  // in stage 3
  std::vector<int64_t> block_of_;                // of each parameter then
  std::unique_ptr<FlatParameters> flat_;
  std::unique_ptr<AdamW> optimizer_;
  std::shared_ptr<GradientReducer> reducer_;
};

}  // namespace distill
