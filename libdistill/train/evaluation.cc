#include "libdistill/train/evaluation.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/comm/rank0_bytes.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/sums_over_ranks.h"

namespace distill {
namespace {

// Pairs of a number and a text, as bytes: 8 of the number, 8 of the text's length, and the text.
template <typename Number>
void AppendPair(std::string& bytes, Number number, const std::string& text) {
  static_assert(sizeof(Number) == 8);
  const auto length = static_cast<int64_t>(text.size());
  bytes.append(reinterpret_cast<const char*>(&number), 8);
  bytes.append(reinterpret_cast<const char*>(&length), 8);
  bytes.append(text);
}

template <typename Number, typename Take>
void ReadPairs(const std::string& bytes, Take take) {
  for (size_t at = 0; at < bytes.size();) {
    Number number;
    int64_t length = 0;
    std::memcpy(&number, bytes.data() + at, 8);
    std::memcpy(&length, bytes.data() + at + 8, 8);
    take(number, bytes.substr(at + 16, static_cast<size_t>(length)));
    at += 16 + static_cast<size_t>(length);
  }
}

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

absl::Status RunPasses(const ShardedModels& models, int64_t steps, Evaluator& evaluator, Metrics& metrics) {
  const torch::NoGradGuard no_grad;
  for (int64_t step = 0; step < steps; ++step) {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<Evaluator::Pass> passes, evaluator.NextStep());
    for (const Evaluator::Pass& pass : passes) {
      if (pass == nullptr) {
        models.Skip(/*trains=*/false);
        continue;
      }
      DISTILL_RETURN_IF_ERROR(models.RunOnce(/*trains=*/false, [&] { return pass(metrics); }));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<MetricValues> MeansOverRanks(Communicator& comm, const Metrics& metrics) {
  std::vector<std::string> mine;
  for (const auto& [name, sum] : metrics.means().sums()) mine.push_back(name);
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, UnionOfNames(comm, mine));
  SumsOverRanks over_ranks(comm, names);
  DISTILL_ASSIGN_OR_RETURN(const SumsOverRanks::Result result, over_ranks.Add(metrics.means(), absl::OkStatus()));
  MetricValues means;
  for (size_t i = 0; i < names.size(); ++i) {
    if (result.sums[i].count > 0) means[names[i]] = result.sums[i].sum / static_cast<double>(result.sums[i].count);
  }
  return means;
}

// On rank 0.
absl::StatusOr<Predictions> GatherPredictions(Communicator& comm, const Metrics& metrics) {
  std::string mine;
  for (const auto& [sample, prediction] : metrics.predictions()) AppendPair(mine, sample, prediction);
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> all, GatherBytes(comm, mine));
  Predictions predictions;
  for (const std::string& bytes : all) {
    ReadPairs<int64_t>(
        bytes, [&](int64_t sample, std::string prediction) { predictions.emplace(sample, std::move(prediction)); });
  }
  return predictions;
}

absl::StatusOr<MetricValues> SummarizeOnRank0(Communicator& comm, const Metrics& metrics, Evaluator& evaluator) {
  DISTILL_ASSIGN_OR_RETURN(const MetricValues means, MeansOverRanks(comm, metrics));
  DISTILL_ASSIGN_OR_RETURN(const Predictions predictions, GatherPredictions(comm, metrics));
  std::string bytes;
  absl::Status summarized;
  if (comm.rank() == 0) {
    summarized = CatchTorch([&]() -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(const MetricValues values, evaluator.Summarize(means, predictions));
      for (const auto& [name, value] : values) AppendPair(bytes, value, name);
      return absl::OkStatus();
    });
  }
  DISTILL_RETURN_IF_ERROR(Agree(comm, summarized));
  DISTILL_ASSIGN_OR_RETURN(bytes, BroadcastBytes(comm, std::move(bytes)));
  MetricValues values;
  ReadPairs<double>(bytes, [&](double value, const std::string& name) { values[name] = value; });
  return values;
}

}  // namespace

absl::StatusOr<MetricValues> EvaluateOverRanks(Communicator& comm, torch::nn::Module& module,
                                               const ShardedModels& models, c10::Device device, Evaluator& evaluator) {
  DISTILL_RETURN_IF_ERROR(BroadcastBuffers(comm, module));
  const bool was_training = module.is_training();
  module.eval();
  Metrics metrics;
  absl::StatusOr<int64_t> steps = StartOnAllRanks(comm, device, evaluator);
  absl::Status mine = steps.status();
  if (mine.ok()) mine = CatchTorch([&] { return RunPasses(models, *steps, evaluator, metrics); });
  if (!mine.ok()) models.Abort(mine);
  evaluator.Stop();
  module.train(was_training);
  DISTILL_RETURN_IF_ERROR(Agree(comm, mine));
  return SummarizeOnRank0(comm, metrics, evaluator);
}

}  // namespace distill
