// The text that a run masks: its tokenizer, its corpora as pieces of tokens, and this rank's batches of them.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "examples/distilbert/options.h"
#include "libdistill/data/dataset.h"
#include "libdistill/data/mlm_masking.h"
#include "libdistill/data/token_batch.h"
#include "libdistill/text/tokenizer.h"
#include "libdistill/world/world.h"

namespace distill {

struct MaskedText {
  Tokenizer tokenizer;
  MlmMasking masking;
  std::shared_ptr<Dataset> train;
  std::shared_ptr<Dataset> held_out;  // null without validation_split
  std::string summary;
};

// InvalidArgument: max_length is more than a model has positions for. Reads both models' configs.
[[nodiscard]] absl::Status CheckLengths(const DistilBertOptions& options);

// The folder whose tokenizer is taken, and the option that names it: the student's, or the teacher's where the student
// is made out of it or has none.
std::pair<std::string, const char*> TokenizerFolder(const DistilBertOptions& options);

// Of all that the options name. InvalidArgument: that of CheckLengths; the tokenizer has no mask token; the errors of
// the data.
[[nodiscard]] absl::StatusOr<MaskedText> LoadMaskedText(const DistilBertOptions& options);

// This rank's part, masked: of the training text, another mask each epoch; of the held-out text, always the same.
[[nodiscard]] absl::StatusOr<TokenBatches> ShardTraining(const DistilBertOptions& options, const MaskedText& text,
                                                         const World& world);
[[nodiscard]] absl::StatusOr<TokenBatches> ShardHeldOut(const DistilBertOptions& options, const MaskedText& text,
                                                        const World& world);

}  // namespace distill
