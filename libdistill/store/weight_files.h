// Which files of a folder are read as a model's weights, by their names alone.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace distill {

// What a student's states are compared through while it is trained (nn/state_projections.h), beside the saved model.
inline constexpr char kStateProjectionsFile[] = "hidden_projections.safetensors";

// The folder, in that of a model, of a save that stands and has not come into its place yet
// (checkpoint/local_publish.cc).
inline constexpr char kStandingSave[] = ".model.new";

// For the end of an error of a model that is not found in `folder`: that such a save waits there, and what completes
// it. "" where there is none.
std::string AdviceOnStandingSave(const std::string& folder);

// Whole models: model.safetensors and pytorch_model.bin, parts of them (model-00001-of-00003.safetensors), and the
// indices of parts.
bool IsReadAsWeights(absl::string_view name);

// Of `found`, the files that would make another model of the one whose files are `written`: whole models, adapters and
// state projections that are not among them, and, where adapters were written, the config.json of a whole model. None
// where no weights are among `written`: what lies there may then be all that there is.
std::vector<std::string> WeightsOfOthers(const std::vector<std::string>& found,
                                         const std::vector<std::string>& written);

// Removes them from a folder of any store, and says so in a line of the log. Blocks. Before the new model can be found
// there: a reader would take the old files for its own. An error of the store says what is left, and what to do.
[[nodiscard]] absl::Status RemoveWeightsOfOthers(const std::string& folder, const std::vector<std::string>& written);

}  // namespace distill
