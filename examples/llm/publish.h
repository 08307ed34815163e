// What happens to a student when it is trained: its page is written, and it goes to the hub where the options say so.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "examples/llm/model_card.h"
#include "examples/llm/options.h"
#include "libdistill/distill.h"

namespace distill {

// On rank 0, before anything is loaded: whether the hub will take the student. OK where it is not to be published.
// Errors of CheckMayPublish.
[[nodiscard]] absl::Status CheckMayPublish(const LlmOptions& options);

// Every rank must call it after Fit; blocks. Rank 0 writes the model's page into output_dir, publishes the model that
// lies there, and with save_location hub removes it from there. Meanwhile the others wait, however long it takes. After
// an error, which is every rank's, the model is in output_dir, and the hub shows nothing of it. `was_trained`: whether
// this run made steps; the page of one that resumed at its end knows less than the one that is there, which stays.
[[nodiscard]] absl::Status PublishStudent(RunContext& run, const LlmOptions& options, const ModelCard& card,
                                          bool was_trained);

// The model of the folder, of any store, which stays. Blocks. NotFound: it holds none.
[[nodiscard]] absl::Status PublishFolder(const PublishOptions& options, const std::string& folder);

}  // namespace distill
