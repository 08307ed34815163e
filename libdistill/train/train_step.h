// One step of training: micro-batches, gradients summed over ranks, one division, clipping, one update.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/gradients/loss_scale.h"
#include "libdistill/metrics/data_wait.h"
#include "libdistill/shard/sharded_models.h"
#include "libdistill/shard/trained_module.h"
#include "libdistill/train/agreed_task.h"
#include "libdistill/train/means_over_ranks.h"

namespace distill {

// Over the global batch; the same on every rank.
struct StepOutcome {
  std::vector<int64_t> counts;  // of each loss term
  int64_t divisor = 0;          // the first of them that is not 0, which divides the gradients; 0: there was no loss
  int64_t tokens = 0;
  int64_t samples = 0;
  DataWait data_wait;                                 // of the rank that waited longest for its micro-batches
  std::vector<std::pair<std::string, double>> means;  // "loss" first, then the terms by name, before the update
  double grad_norm = 0;                               // of the divided gradients, before clipping
  size_t updated_buckets = 0;                         // of gradients: all, none, or those before one not finite
  absl::Status update;  // an update that failed on this rank alone: to be brought into the next Run
  // What kept the update from being made: "the loss of rank 1 on HOST (...)", or a parameter's name.
  std::string non_finite;
  StopRequest request = StopRequest::kNone;  // the strongest of any rank (TrainStep::Run)
};

class TrainStep {
 public:
  // `agreed`, `trained`: must outlive it. `loss_scale`: null, or what Run starts a step of.
  TrainStep(Communicator& comm, const AgreedTask& agreed, TrainedModule& trained, ShardedModels models,
            double max_grad_norm, LossScale* loss_scale)
      : comm_(comm),
        agreed_(agreed),
        trained_(trained),
        reducer_(trained.reducer()),
        models_(std::move(models)),
        max_grad_norm_(max_grad_norm),
        loss_scale_(loss_scale) {}

  // Every rank must call it, with how far the run is (PassScale::progress), with what failed on it alone since the last
  // call, and what tells, late in the step, what it wants to become of the run: an error of any rank is returned on
  // all, and then, with clipping, no rank has updated its weights.
  //
  // Without clipping (`max_grad_norm` 0), or a loss scale, nothing waits for the global norm: each bucket is updated
  // when it has arrived and the backward pass, which computes on the same cores, is over, while later ones are on their
  // way. A gradient that is not finite then keeps its own bucket and the later ones from being updated (one that is
  // finite is updated also where the loss is not), and an error may come after some were.
  [[nodiscard]] absl::StatusOr<StepOutcome> Run(Task& task, const LearningRates& rates, double progress,
                                                absl::Status mine, const std::function<StopRequest()>& request);

 private:
  absl::Status CountStep(const std::vector<MicroStep>& micro_steps, double waited_seconds, const absl::Status& mine,
                         StepOutcome& outcome);
  PassScale ScaleOf(const StepOutcome& outcome, double progress) const;
  // Forward and backward passes of all micro-steps, until the buckets are summed.
  absl::Status Backward(const std::vector<MicroStep>& micro_steps, absl::Status& mine,
                        const std::function<void(size_t)>& on_bucket);
  absl::Status RunMicroStep(const MicroStep& micro_step);
  std::string WhereItFailed(const std::string& which, const MicroStep& micro_step);
  absl::Status WithSizes(const absl::Status& error, std::string which);
  // What the backward pass of these losses starts from.
  absl::StatusOr<torch::Tensor> Total(const Losses& losses, const std::vector<int64_t>& counts) const;
  // Of those with a loss the one of this round, while all ranks make `rounds` of them; `mine` gets what fails.
  void RunRound(const std::vector<const MicroStep*>& with_loss, int64_t round, absl::Status& mine);
  // With clipping, or a loss scale.
  absl::Status UpdateAll(StepOutcome& outcome, const LearningRates& rates);
  // Without.
  void UpdateArrived(size_t bucket, StepOutcome& outcome, const LearningRates& rates);
  absl::Status GatherArrived(const StepOutcome& outcome);
  absl::Status NameNonFinite(const std::vector<MicroStep>& micro_steps, StepOutcome& outcome);
  // Which rank, micro-batch, samples and module it came from: the same text on every rank.
  absl::StatusOr<std::string> FindBadLoss(const std::vector<MicroStep>& micro_steps);
  // Of this rank's micro-batches the first with such a loss; empty where there is none.
  absl::StatusOr<std::string> BadMicroStep(const std::vector<const MicroStep*>& with_loss, int64_t rounds);
  bool waits_for_norm() const { return max_grad_norm_ > 0 || loss_scale_ != nullptr; }
  // Of the buckets' gradients.
  double Divisor(const StepOutcome& outcome) const;

  Communicator& comm_;
  const AgreedTask& agreed_;
  TrainedModule& trained_;
  GradientReducer& reducer_;
  const ShardedModels models_;
  const double max_grad_norm_;
  LossScale* const loss_scale_;
  TermSums sums_;    // of this rank's passes of the step
  PassScale scale_;  // of the step
};

}  // namespace distill
