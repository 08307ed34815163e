// What distillation came to: the student beside its teacher, on the held-out text.
#pragma once

#include "absl/status/status.h"
#include "examples/distilbert/masked_text.h"
#include "examples/distilbert/models.h"
#include "libdistill/train/trainer.h"

namespace distill {

// Every rank must call it, after a Fit; blocks for an evaluation of each model, or several of little text. Rank 0
// prints parameters, their size in float32, the perplexity of the masked words, and tokens a second of evaluations over
// all ranks.
[[nodiscard]] absl::Status CompareModels(RunContext& run, Trainer& trainer, const DistilBertOptions& options,
                                         const MaskedText& text, const DistilBertModels& models);

}  // namespace distill
