// The recipe's classifiers and their tokenizer, out of the folders that the options name.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "examples/polarity/options.h"
#include "libdistill/nn/encoder_heads.h"
#include "libdistill/run/run.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

struct Classifiers {
  std::shared_ptr<SequenceClassifier> student;
  std::shared_ptr<SequenceClassifier> teacher;  // null: labels alone
};

// InvalidArgument, NotFound, DataLoss: with the option that names the folder; a teacher that is no classifier, or of
// another tokenizer or other labels.
[[nodiscard]] absl::StatusOr<Tokenizer> LoadTokenizer(const PolarityOptions& options);
[[nodiscard]] absl::StatusOr<Classifiers> LoadClassifiers(const PolarityOptions& options, const RunContext& run);

}  // namespace distill
