// What can be told of a run's models before its first step, so that nobody learns it hours later.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "examples/llm/llm_task.h"
#include "examples/llm/options.h"
#include "libdistill/distill.h"

namespace distill {

// Reads the weights that are in memory, and takes the losses of this rank's first batch without gradients; of models
// that ranks share, or with flash attention, the weights alone. Blocks; needs no other rank. InvalidArgument: weights
// or logits that are not finite, of which the option and the tensor are named. Warnings on rank 0: weights of zeros
// alone; a loss as of chance, of the teacher, and of a student that came with weights.
[[nodiscard]] absl::Status CheckFirstBatch(const RunContext& run, const LlmOptions& options, const LlmText& text,
                                           const LlmModels& models, const LogitDistillation& objective);

// For --show_batch: the likeliest tokens at the first places of the batch that have a loss, by the teacher and by the
// student, of those whose folders have weights. Empty where there is neither, or no loss.
[[nodiscard]] absl::StatusOr<std::string> DescribeAnswers(const RunContext& run, const LlmOptions& options,
                                                          const TokenBatch& batch, const Tokenizer& tokenizer);

}  // namespace distill
