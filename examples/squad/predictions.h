// What a run predicted, in the files that run_qa.py of transformers writes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "examples/squad/decode.h"

namespace distill {

struct AnsweredQuestion {
  std::string id;
  DecodedAnswer answer;
};

// FOLDER/predictions.json (the answer of each id), nbest_predictions.json (its candidates, with logits and
// probability), and of version 2 null_odds.json. `folder` may be of any store.
[[nodiscard]] absl::Status WritePredictions(const std::string& folder, const std::vector<AnsweredQuestion>& answers,
                                            bool version_2_with_negative);

}  // namespace distill
