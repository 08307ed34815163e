// Sums gradients over ranks while the backward pass that makes them still runs.
//
//   DISTILL_ASSIGN_OR_RETURN(auto reducer, GradientReducer::Create(comm, parameters, {}));
//   reducer->StartStep();
//   {
//     const GradientReducer::NoSync no_sync(*reducer);   // all micro-batches but the last: nothing is sent
//     first_loss.backward();
//   }
//   last_loss.backward();                                // buckets leave as soon as their last gradient is there
//   absl::Status mine;
//   DISTILL_RETURN_IF_ERROR(reducer->Finish(mine));      // reducer->buckets() has the sums
//
// Hooks of autograd move each gradient into its bucket as it is made; a communication thread (comm/async.h) sums the
// buckets over ranks one after the other, in the same order on every rank. A bucket whose gradients are not all there
// when the backward pass is over leaves in Finish. So ranks may use different parameters in a step, or none at all:
// what a rank does not use counts as zeros there, and the gradient of a parameter that no rank uses is zero.
//
// The first step with a backward pass is observed, and its buckets leave in Finish; then the plan is made anew once
// (gradient_order.h). The sum of a bucket does not depend on when it left. How a gradient gets to its bucket's memory
// depends on the stage (gradient_staging.h).
//
// The gradient of a table that is embedding and head may come in two parts (gradient_rows.h): that of the head as any
// other, that of the rows which a pass looked up by AddRows. The latter are summed after all buckets.
//
// A reducer is used by one thread; hooks may run on autograd's. From StartStep until Finish has returned nobody else
// may use the communicator.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <torch/types.h>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libdistill/comm/async.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/gradients/compression.h"
#include "libdistill/gradients/gradient_buckets.h"
#include "libdistill/gradients/gradient_order.h"
#include "libdistill/gradients/gradient_rows.h"
#include "libdistill/gradients/gradient_staging.h"
#include "libdistill/gradients/gradient_wire.h"
#include "libdistill/tensor/own_stream.h"

namespace torch::autograd {
struct Node;
}

namespace distill {

struct GradientReducerOptions {
  int64_t bucket_bytes = 25 << 20;
  GradientCompression compression = GradientCompression::kNone;
  // Of ZeRO (gradient_buckets.h): 0: every rank has all gradients; 1: each has the sums of its slices; 2: and keeps
  // nothing else; 3 as 2, for sharded parameters too. From 1 on the order of gradients is the reverse of
  // the parameters', and is not observed.
  int zero_stage = 0;
  // From stage 1 on: the group of each parameter, if buckets must not mix them (gradient_plan.h); empty: one group.
  std::vector<int64_t> groups = {};
  // The order() of the run that this one resumes: bits that depend on the plan then stay the same. Empty: to be
  // observed.
  std::vector<int64_t> order = {};
  // Whether BorrowSum may give memory: each loss that borrows goes to its backward pass, once, as it is. One that
  // was scaled or thrown away would spoil the sum.
  bool losses_are_final = false;
  // The parameter, [rows, width], of which AddRows takes a part of the gradient; none: -1. In stage 0 on CPUs:
  // elsewhere TakesRows says that it does not.
  int64_t rows_of = -1;
};

// How well the last step's communication was hidden.
struct OverlapStats {
  int64_t early_buckets = 0;  // that left before the backward pass was over
  absl::Duration waited;      // in Finish, for the communication thread
};

class GradientReducer {
 public:
  // Every rank must call it; blocks. FailedPrecondition: ranks whose parameters or plans differ, with both ranks' view.
  // InvalidArgument: options out of range. `comm` must outlive the result. The parameters keep their type and device.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<GradientReducer>> Create(
      Communicator& comm, const std::vector<TrainedParameter>& parameters, const GradientReducerOptions& options);
  // Takes the hooks and the gradients away. Waits for the communication thread's current call.
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Starts anew: there are no gradients. From stage 2 on, which has no NoSync, a step of several backward passes has
  // each of them between a StartStep and a Finish of its own; with `adds` sums are added to those of the pass before.
  void StartStep(bool adds = false);
  // While one lives, backward passes add up and nothing is sent. Below stage 2 only.
  class NoSync {
   public:
    explicit NoSync(GradientReducer& reducer) : reducer_(reducer) { reducer_.syncs_ = false; }
    ~NoSync() { reducer_.syncs_ = true; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    GradientReducer& reducer_;
  };
  // Borrows memory for the gradient of a parameter, for a loss that knows it before the backward pass gives it:
  // float32, contiguous, of the parameter's shape, holding anything. A gradient that autograd then gives there is in
  // its bucket already. Undefined where that is not free: outside of a step, once a part of the step's gradient has
  // come, as long as what was borrowed before is in use, and from stage 2 on. What is still borrowed when the memory is
  // needed again counts as changed, so that autograd throws rather than use it. A hook on the parameter that keeps its
  // gradient must clone it: the memory is the bucket's, which is summed over ranks and used again.
  torch::Tensor Borrow(const torch::Tensor& parameter);
  // Borrows the same memory once it holds the sum of a step's earlier micro-batches, for a loss that adds its gradient
  // there, and then gives it to AddWide, in any type, in place of autograd. Undefined where Borrow would give memory or
  // what was borrowed is in use, where losses are not final, outside of a step, once the bucket has left, from stage 2
  // on, and where the parameter has hooks of a user's, which would see more than a part of the gradient.
  torch::Tensor BorrowSum(const torch::Tensor& parameter);
  // Whether the gradient of this parameter, of a type narrower than float32, is to come by AddWide, if it comes in the
  // step under way, and not by autograd, which would round it. Not where the parameter has hooks of a user's, which
  // would not see it, nor from stage 2 on.
  bool TakesWide(const torch::Tensor& parameter);
  // In a backward pass in which autograd gives the parameter none: `gradient`, float32, of its shape, may be what
  // Borrow or BorrowSum gave. Throws outside of a step, where the parameter's bucket has left, and from stage 2 on.
  void AddWide(const torch::Tensor& parameter, const torch::Tensor& gradient);
  // Whether gradients of rows of this parameter are to come by AddRows, if they come in the step under way, and not by
  // autograd. Not where the parameter has hooks of a user's, which would see a part of its gradient.
  bool TakesRows(const torch::Tensor& parameter);
  // Of options().rows_of, in a backward pass: see GradientRows::Add. Throws outside of a step.
  void AddRows(const torch::Tensor& ids, const torch::Tensor& gradients);
  // Every rank must call it, once a step, also after a backward pass that failed or never was: the others wait for this
  // rank's part. Blocks until the buckets are summed. In stage 0 the gradients of float32 parameters are then views
  // into them; bfloat16 parameters, and all in other stages, have theirs in the buckets alone. The error is the
  // communicator's, which is poisoned; `mine` gets what failed on this rank alone, and its buckets then hold nothing of
  // use. `on_bucket` is called on this thread for each bucket when it is summed, while later ones are still on their
  // way, in order but for the one with rows, which is the last; it must not throw.
  [[nodiscard]] absl::Status Finish(absl::Status& mine, const std::function<void(size_t bucket)>& on_bucket = nullptr);

  // A call between those of the step's buckets and the next step's, on the communication thread. Every rank must make
  // it, at the same place; the rules are those of AsyncCalls::Run.
  AsyncCall Run(std::function<absl::Status(Communicator&)> call) { return thread_->Run(std::move(call)); }

  const GradientBuckets& buckets() const { return buckets_; }
  const GradientReducerOptions& options() const { return options_; }
  // Whether each backward pass of a step is summed over ranks by itself: sharded gradients leave no memory in which
  // passes could add up before.
  bool sums_each_pass() const { return options_.zero_stage >= 2; }
  // Parameters by index in the order of the plan that the next step uses; empty until it was observed. For checkpoints.
  const std::vector<int64_t>& order() const { return order_.order(); }
  const OverlapStats& stats() const { return stats_; }

 private:
  struct Hooked {
    torch::Tensor parameter;
    std::shared_ptr<torch::autograd::Node> accumulator;  // has the hook
    uintptr_t hook = 0;
  };

  GradientReducer(Communicator& comm, GradientBuckets buckets, const GradientReducerOptions& options);
  void AddHooks();
  // Of autograd's threads, with the lock.
  void OnGradient(size_t i);
  void RefuseLate(size_t i) const;
  bool HasLeft(size_t i) const { return buckets_.plan().bucket_of(i) < calls_.size(); }
  // Of a parameter; the parameters' number where it is none.
  size_t IndexOf(const torch::Tensor& parameter) const;
  void Launch();
  // In Finish.
  void EndStep(absl::Status& mine);
  absl::Status AwaitBuckets(absl::Status status, const std::function<void(size_t bucket)>& on_bucket);
  // On the communication thread.
  absl::Status ReduceRows(Communicator& comm);

  Communicator& comm_;
  const GradientReducerOptions options_;
  GradientBuckets buckets_;
  GradientWire wire_;
  std::optional<ShardPlan> next_plan_;  // of the next step; none: it stays
  OverlapStats stats_;
  std::vector<Hooked> hooked_;  // the parameters

  std::mutex mutex_;  // of what hooks touch
  GradientOrder order_;
  const std::unique_ptr<GradientStaging> staging_;
  std::vector<AsyncCall> calls_;      // of the buckets that left, in order
  std::optional<GradientRows> rows_;  // of options_.rows_of, if that is one
  std::optional<AsyncCall> rows_call_;
  bool in_step_ = false;
  bool adds_ = false;  // to the sums of the pass before
  std::atomic<bool> syncs_{true};
  std::shared_ptr<const HeldStream> stream_;  // where buckets are summed on a GPU
  std::atomic<bool> lost_{false};             // a bucket has failed: the backward pass need not continue

  std::unique_ptr<AsyncCalls> thread_;  // last: its calls use what is above
};

}  // namespace distill
