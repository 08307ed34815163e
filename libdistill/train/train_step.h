// One step of training: micro-batches, gradients summed over ranks, one division, clipping, one update.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/gradients/adamw.h"
#include "libdistill/gradients/gradient_reducer.h"
#include "libdistill/shard/flat_parameters.h"
#include "libdistill/shard/sharded_models.h"
#include "libdistill/train/loss_scale.h"
#include "libdistill/train/trainer.h"

namespace distill {

// Over the global batch; the same on every rank.
struct StepOutcome {
  int64_t loss_tokens = 0;
  int64_t tokens = 0;
  int64_t samples = 0;
  std::vector<std::pair<std::string, double>> means;  // "loss" first, then the callable's sums, before the update
  double grad_norm = 0;                               // of the divided gradients, before clipping
  size_t updated_buckets = 0;                         // of gradients: all, none, or those before one not finite
  absl::Status update;     // an update that failed on this rank alone: to be brought into the next Run
  std::string non_finite;  // what kept the update from being made: "the loss", or a parameter's name
};

// The means of sums over micro-batches and ranks: how training and evaluation both add up their losses.
class SumsOverRanks {
 public:
  explicit SumsOverRanks(Communicator& comm) : comm_(comm) {}

  // Adds one micro-batch. InvalidArgument: a count that differs from `expected_count`.
  [[nodiscard]] absl::Status Add(const LossSum& loss, int64_t expected_count);
  // Sums over ranks, divides by `count`, starts anew. Every rank must call it with its own status; an error of any rank
  // is returned on all.
  [[nodiscard]] absl::StatusOr<std::vector<std::pair<std::string, double>>> Finish(absl::Status mine, int64_t count);

 private:
  struct Totals {
    std::vector<double> values = {};  // by name, over all ranks
    double unknown = 0, failed = 0;   // ranks
  };
  absl::Status AgreeOnNames();
  absl::StatusOr<Totals> SumAll(absl::Status& mine);

  Communicator& comm_;
  std::map<std::string, torch::Tensor> sums_;  // float64 scalars, where the loss was computed
  std::vector<std::string> names_;             // ranks without tokens know none
  bool has_agreed_ = false;                    // on them, once a rank has brought sums
};

class TrainStep {
 public:
  // `flat`: the parameters, where ranks update parts of them; may be null, as `loss_scale`, which Run starts a step of.
  TrainStep(Communicator& comm, GradientReducer& reducer, AdamW& optimizer, FlatParameters* flat, ShardedModels models,
            double max_grad_norm, LossScale* loss_scale)
      : comm_(comm),
        reducer_(reducer),
        optimizer_(optimizer),
        flat_(flat),
        models_(std::move(models)),
        max_grad_norm_(max_grad_norm),
        loss_scale_(loss_scale),
        sums_(comm) {}

  // Every rank must call it, with what failed on it alone since the last call: an error of any rank is returned on all,
  // and then, with clipping, no rank has updated its weights.
  //
  // Without clipping (`max_grad_norm` 0), or a loss scale, nothing waits for the global norm: each bucket is updated
  // when it has arrived and the backward pass, which computes on the same cores, is over, while later ones are on their
  // way. A gradient that is not finite then keeps its own bucket and
  // the later ones from being updated (one that is finite is updated also where the loss is not), and an error may come
  // after some were.
  [[nodiscard]] absl::StatusOr<StepOutcome> Run(StepSource& source, double learning_rate, absl::Status mine);

 private:
  // Forward and backward passes of all micro-steps, until the buckets are summed.
  absl::Status Backward(const std::vector<MicroStep>& micro_steps, absl::Status& mine,
                        const std::function<void(size_t)>& on_bucket);
  absl::Status RunMicroStep(const MicroStep& micro_step);
  // Of those with a loss the one of this round, while all ranks make `rounds` of them; `mine` gets what fails.
  void RunRound(const std::vector<const MicroStep*>& with_loss, int64_t round, absl::Status& mine);
  // With clipping, or a loss scale.
  absl::Status UpdateAll(StepOutcome& outcome, double learning_rate);
  // Without.
  void UpdateArrived(size_t bucket, StepOutcome& outcome, double learning_rate);
  absl::Status GatherArrived(const StepOutcome& outcome);
  void UpdateBucket(size_t bucket, StepOutcome& outcome);
  absl::Status NameNonFinite(StepOutcome& outcome);
  bool waits_for_norm() const { return max_grad_norm_ > 0 || loss_scale_ != nullptr; }
  // Of the buckets' gradients.
  double Divisor(const StepOutcome& outcome) const;

  Communicator& comm_;
  GradientReducer& reducer_;
  AdamW& optimizer_;
  FlatParameters* flat_;
  ShardedModels models_;
  double max_grad_norm_;
  LossScale* loss_scale_;
  SumsOverRanks sums_;
};

}  // namespace distill
