// A model's blocks of which each rank holds a share, and all of it only while they run: the parameters' part of ZeRO 3
// (Rajbhandari et al. 2020, P_os+g+p).
//
// A block's parameters are views into one storage (c10::StorageImpl), which holds no memory while the block is away.
// Acquire points it to one of two slots that blocks use in rotation, once the other ranks' shares have been gathered
// there; what autograd saved of a parameter is a view of the same storage, and is there again when the backward pass
// acquires the block. The parameters themselves are given a storage that refuses to be read while the block is away,
// with an error that names the parameter. While a block runs the next one is gathered, by a thread and over a
// communicator of its own:
//
//   forward    0 1 2 ... n-1          each gathered one ahead
//   backward   n-1 ... 2 1 0          n-1 has stayed
//
// so with n blocks of P bytes in all a rank holds P / ranks and two blocks, and P travels 2 - 1/n times a step.
// The order is the same on every rank whatever it computes, and a rank without data takes part by SkipPass. Blocks of
// which nothing is sharded, as frozen ones of a model that is trained in part, take no turn: their weights are there at
// any time, and a backward pass need not get to them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <torch/types.h>

#include "absl/status/statusor.h"
#include "libdistill/comm/async.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/gradients/gradient_plan.h"
#include "libdistill/gradients/parameters.h"
#include "libdistill/nn/weight_gate.h"
#include "libdistill/shard/sharded_values.h"
#include "libdistill/tensor/own_stream.h"

namespace distill {

class ShardedBlocks : public WeightGate {
 public:
  using Options = ShardedBlocksOptions;
  // What it allocates, in elements of the weights' type.
  struct Sizes {
    int64_t shares = 0;  // this rank's, of all blocks
    int64_t places = 0;  // the two slots that blocks use in rotation
  };
  static Sizes SizesOf(const ShardPlan& plan, const std::vector<int64_t>& block_of);
  // Takes the values out of `parameters`, which are whole on every rank, and makes them views of `options`' type that
  // hold nothing until their block is acquired. `block_of`: of each parameter, in the order of the passes, or below 0:
  // left alone; `blocks` of them make a pass, those without a parameter here too. A bucket of `plan`, of one shard a
  // rank, holds parameters of one block. Every rank must call it, with
  // the same parameters and plan; `comm` may go before the result. Errors are every rank's.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<ShardedBlocks>> Create(
      Communicator& comm, const std::vector<TrainedParameter>& parameters, const std::vector<int64_t>& block_of,
      size_t blocks, const ShardPlan& plan, const Options& options);
  ~ShardedBlocks() override;

  // WeightGate. They throw StatusError with the communicator's error where a rank is lost or has given up, and
  // FailedPrecondition for passes that are not the ones described above.
  void BeginPass(bool with_gradients) override;
  void Acquire(size_t block) override;
  void Release(size_t block) override;
  // Between passes, on the rank that Lead has made the reader; FailedPrecondition elsewhere. Nothing while the model is
  // gathered whole.
  void Fetch(size_t block) override;
  int64_t held_bytes() const override;  // shares and slots; not what GatherWhole brings

  // Makes this rank one that may Fetch, until null: `announce` has to let every other rank call FollowFetch, with the
  // same block.
  void Lead(std::function<absl::Status(size_t block)> announce);
  [[nodiscard]] absl::Status FollowFetch(size_t block);

  // Between the two no pass but one of this kind is begun: BeginPass throws FailedPrecondition, since the other ranks
  // do not take part. False: that one was not made, or not to its end.
  void StartRound(bool with_gradients) { round_ = {.with_gradients = with_gradients}; }
  bool EndRound();

  // This rank's part in a pass of the others, for which it has no data. Returns at once.
  void SkipPass(bool with_gradients);
  // What is appended to errors, as Communicator's; waits for what is under way.
  void SetErrorContext(std::function<std::string()> context);
  // Ends the passes of all ranks with this error.
  void Abort(const absl::Status& error) { comm_->Abort(error); }

  // This rank's part of a parameter's elements (ShardPlan::OfParameter), flat: what an optimizer updates between
  // passes.
  const torch::Tensor& part(size_t parameter) const { return values_.parts[parameter]; }

  // Between passes: gathers all blocks, which this rank keeps if it says so, until DropWhole or for good. Every rank
  // must call it; ResourceExhausted on all where one of them has not that much memory.
  [[nodiscard]] absl::Status GatherWhole(bool keep);
  void DropWhole();

 private:
  using Block = ShardedBlock;

  ShardedBlocks(const ShardPlan& plan, std::unique_ptr<Communicator> comm, c10::Device device,
                const std::vector<int64_t>& block_of, size_t blocks);

  bool IsSharded(size_t block) const { return !blocks_[block].buckets.empty(); }
  // The k-th block of the pass.
  size_t Turn(int64_t k) const;
  int64_t turns() const;
  AsyncCall StartGather(size_t block);
  void LaunchNext();
  void RefuseOthers(bool with_gradients);
  // Null: away.
  void Point(Block& block, c10::DataPtr memory);
  torch::Tensor Place(const Block& block, size_t place) const;
  [[noreturn]] void Refuse(const char* what, size_t block) const;
  // On the thread.
  absl::Status Gather(Communicator& comm, size_t block, size_t place) const;

  const ShardPlan plan_;
  const c10::Device device_;
  std::vector<Block> blocks_;
  std::vector<size_t> sharded_;  // those of which something is, in order: the ones that take turns
  ShardedValues values_;
  torch::Tensor places_;  // both
  size_t next_place_ = 0;

  bool with_gradients_ = false;  // this pass
  bool turned_ = false;          // its forward pass is over
  int64_t launched_ = 0, acquired_ = 0;
  struct Round {
    bool with_gradients = false, has_begun = false;
  };
  std::optional<Round> round_;
  std::function<absl::Status(size_t block)> announce_;
  bool whole_ = false;

  std::unique_ptr<Communicator> comm_;
  std::shared_ptr<const HeldStream> stream_;  // where blocks are gathered on a GPU, beside the gradients' sums
  std::unique_ptr<AsyncCalls> thread_;        // last: its calls use what is above
};

}  // namespace distill
