#include "libdistill/train/evaluation.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/proto/evaluation_messages.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/random_state.h"
#include "libdistill/train/means_over_ranks.h"

namespace distill {
namespace {

// Starts it, and gives its steps, which are the same on every rank.
absl::StatusOr<int64_t> StartOnAllRanks(Communicator& comm, c10::Device device, Evaluator& evaluator) {
  int64_t steps = 0;
  const absl::Status mine = CatchTorch([&]() -> absl::Status {
    DISTILL_RETURN_IF_ERROR(evaluator.Start(device));
    DISTILL_ASSIGN_OR_RETURN(steps, evaluator.Steps());
    return absl::OkStatus();
  });
  DISTILL_RETURN_IF_ERROR(Agree(comm, mine));
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(comm, {{"the steps of an evaluation", absl::StrCat(steps)}}));
  return steps;
}

absl::Status RunStep(const ShardedModels& models, Evaluator& evaluator, Metrics& metrics) {
  const torch::NoGradGuard no_grad;
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Evaluator::Pass> passes, evaluator.NextStep());
  for (const Evaluator::Pass& pass : passes) {
    if (pass == nullptr) {
      models.Skip(/*trains=*/false);
      continue;
    }
    DISTILL_RETURN_IF_ERROR(models.RunOnce(/*trains=*/false, [&] { return pass(metrics); }));
  }
  return absl::OkStatus();
}

// Every rank's steps, or the same error on every rank.
absl::Status RunSteps(Communicator& comm, const ShardedModels& models, int64_t steps, Evaluator& evaluator,
                      EvaluationCut* cut, Metrics& metrics) {
  for (int64_t step = 0; step < steps; ++step) {
    const absl::Status mine = CatchTorch([&] { return RunStep(models, evaluator, metrics); });
    if (!mine.ok()) models.Abort(mine);
    std::array<double, 2> any = {mine.ok() ? 0.0 : 1.0, cut != nullptr && cut->is_wanted() ? 1.0 : 0.0};
    DISTILL_RETURN_IF_ERROR(comm.AllReduce(any.data(), any.data(), any.size(), DType::kFloat64, ReduceOp::kMax));
    if (any[0] > 0) return Agree(comm, mine);
    if (any[1] == 0 || step + 1 == steps) continue;
    cut->was_made = true;
    return absl::CancelledError("the evaluation was cut short");
  }
  return absl::OkStatus();
}

absl::StatusOr<MetricValues> MeansOf(Communicator& comm, const Metrics& metrics) {
  std::vector<std::string> mine;
  for (const auto& [name, sum] : metrics.means().sums()) mine.push_back(name);
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, UnionOfNames(comm, mine));
  DISTILL_ASSIGN_OR_RETURN(MeansAndRequest result, MeansOverRanks(comm, names, metrics.means(), absl::OkStatus()));
  return std::move(result.means);
}

// Of all ranks, as they wrote them.
absl::StatusOr<Predictions> Merge(const std::vector<std::string>& of_ranks) {
  Predictions predictions;
  for (const std::string& bytes : of_ranks) {
    DISTILL_ASSIGN_OR_RETURN(Predictions of_rank, ParsePredictions(bytes));
    predictions.merge(of_rank);
  }
  return predictions;
}

absl::StatusOr<MetricValues> SummarizeOnRank0(Communicator& comm, const MetricValues& means,
                                              const std::vector<std::string>& predictions, Evaluator& evaluator) {
  std::string bytes;
  absl::Status summarized;
  if (comm.rank() == 0) {
    summarized = CatchTorch([&]() -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(const Predictions merged, Merge(predictions));
      DISTILL_ASSIGN_OR_RETURN(const MetricValues values, evaluator.Summarize(means, merged));
      bytes = Serialize(values);
      return absl::OkStatus();
    });
  }
  DISTILL_RETURN_IF_ERROR(Agree(comm, summarized));
  DISTILL_ASSIGN_OR_RETURN(bytes, BroadcastBytes(comm, std::move(bytes)));
  return ParseMetrics(bytes);
}

}  // namespace

absl::StatusOr<MetricValues> EvaluateOverRanks(Communicator& comm, torch::nn::Module& module,
                                               const ShardedModels& models, c10::Device device, Evaluator& evaluator,
                                               EvaluationCut* cut) {
  DISTILL_RETURN_IF_ERROR(BroadcastBuffers(comm, module));
  const bool was_training = module.is_training();
  module.eval();
  Metrics metrics;
  const torch::Tensor random_state = RandomState(device);
  const absl::StatusOr<int64_t> steps = StartOnAllRanks(comm, device, evaluator);
  const absl::Status evaluated = steps.ok() ? RunSteps(comm, models, *steps, evaluator, cut, metrics) : steps.status();
  evaluator.Stop();
  if (cut != nullptr && cut->was_made) SetRandomState(device, random_state);
  module.train(was_training);
  DISTILL_RETURN_IF_ERROR(evaluated);
  const absl::StatusOr<std::string> predictions = Serialize(metrics.predictions());
  DISTILL_RETURN_IF_ERROR(Agree(comm, predictions.status()));
  DISTILL_ASSIGN_OR_RETURN(const MetricValues means, MeansOf(comm, metrics));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> all, GatherBytes(comm, *predictions));
  return SummarizeOnRank0(comm, means, all, evaluator);
}

}  // namespace distill
