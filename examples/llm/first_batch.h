// What can be told of a run's models before its first step, so that nobody learns it hours later.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/llm/llm_task.h"
#include "examples/llm/options.h"
#include "libdistill/distill.h"

namespace distill {

// Reads the weights that are in memory: of models that are to be sharded, those of no block. Blocks; needs no other
// rank. InvalidArgument: values that are not finite, of which the option and the tensor are named. A warning on rank 0:
// matrices of zeros alone.
[[nodiscard]] absl::Status CheckWeights(const RunContext& run, const LlmOptions& options, const LlmModels& models);

// This rank's first micro-batch that has a loss; none where there is none in the first step, or the run is to resume.
[[nodiscard]] absl::StatusOr<std::optional<TokenBatch>> FindFirstBatch(const LlmOptions& options, const LlmText& text,
                                                                       const World& world);

// Takes the losses of the first batch before the first step, by the models as they will be trained: in their type, with
// their kernels, sharded or whole. Every rank adds one. InvalidArgument: losses that are not finite, with the option
// whose model they are of, of states within both models hidden_weight. Warnings on rank 0: a loss as of chance, of the
// teacher, and of a student that came with weights.
class FirstBatchCheck : public Observer, private Evaluator {
 public:
  // `trainer`, `run` and `models` must outlive it. `batch`: of FindFirstBatch.
  FirstBatchCheck(Trainer& trainer, const RunContext& run, const LlmModels& models,
                  std::shared_ptr<const LogitDistillation> objective, std::optional<TokenBatch> batch)
      : trainer_(trainer), run_(run), models_(models), objective_(std::move(objective)), batch_(std::move(batch)) {}
  absl::Status OnBegin(int64_t step) override;

 private:
  absl::Status Start(c10::Device) override { return absl::OkStatus(); }
  absl::StatusOr<int64_t> Steps() override { return 1; }
  absl::StatusOr<std::vector<Pass>> NextStep() override;

  Trainer& trainer_;
  const RunContext& run_;
  const LlmModels& models_;
  const std::shared_ptr<const LogitDistillation> objective_;
  const std::optional<TokenBatch> batch_;
};

// For --show_batch: the likeliest tokens at the first places of the batch that have a loss, by the teacher and by the
// student, of those whose folders have weights. Empty where there is neither, or no loss.
[[nodiscard]] absl::StatusOr<std::string> DescribeAnswers(const RunContext& run, const LlmOptions& options,
                                                          const TokenBatch& batch, const Tokenizer& tokenizer);

}  // namespace distill
