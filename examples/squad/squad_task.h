// What a run works on, loaded from the folders and files that its options name, and the task that trains a model to
// find answers.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "examples/squad/options.h"
#include "libdistill/data/span_dataset.h"
#include "libdistill/nn/encoder_heads.h"
#include "libdistill/run/run.h"
#include "libdistill/task/make_task.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

struct SquadData {
  Tokenizer tokenizer;
  std::optional<SpanDataset> train, evaluation;  // as do_train and do_eval ask
};

// Where a model's texts are shorter than max_seq_length, windows are so, too. InvalidArgument, with the option: a
// tokenizer that is not the teacher's; held-out questions without an answer, but no version_2_with_negative.
[[nodiscard]] absl::StatusOr<SquadData> LoadSquadData(const SquadOptions& options);

struct SquadModels {
  std::shared_ptr<SpanModel> student;  // float32
  std::shared_ptr<SpanModel> teacher;  // null: there is none
};
[[nodiscard]] absl::StatusOr<SquadModels> LoadSquadModels(const SquadOptions& options, const RunContext& run);

// The terms of the loss: "loss", the mean of the cross-entropies of start and end; with a teacher "ce", the same, and
// "kl", their divergences from the teacher's, times temperature^2. An evaluation gives the same terms, and the scores
// of ScoresOfV1 or ScoresOfV2 (score.h), the latter's "exact" by the name "exact_match", too; it writes what it
// predicts into output_dir (predictions.h). Without training data the task is for its evaluator alone.
[[nodiscard]] absl::StatusOr<std::unique_ptr<BatchTask<TensorBatch>>> MakeSquadTask(
    const SquadOptions& options, const World& world, std::shared_ptr<const SquadData> data, const SquadModels& models);

}  // namespace distill
