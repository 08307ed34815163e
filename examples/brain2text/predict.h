// A trained model's answers to one split, as a file.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "examples/brain2text/options.h"
#include "libdistill/run/run.h"

namespace distill {

// Every rank must call it; blocks. Runs flags.trained_model over the split flags.predict of options.dataset_dir, and
// writes a CSV file with a line a trial: session, trial, what was spelled and, where the split has labels, the target
// and the edits between the two. Rank 0 prints the error rates then, of each day and of all. NotFound: no such model or
// split.
[[nodiscard]] absl::Status Predict(RunContext& run, const Brain2TextOptions& options, const Brain2TextFlags& flags);

// Phonemes of ARPAbet and "|" between words for the 40 classes of the public data (those above 0), numbers for others.
// `n_classes`: the model's; of diphones the classes are phonemes already (InPhonemes).
std::string TextOfClasses(const std::vector<int64_t>& classes, int64_t n_classes);

}  // namespace distill
