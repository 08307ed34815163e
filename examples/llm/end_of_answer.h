// Where an answer ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

// What GenerateOptions::stop_ids is to hold for the model in `folder`: the ids that its generation_config.json or
// config.json names, the tokenizer's eos_token, and the ends of turn of ChatML and Llama 3. Fails where ReadStopIds
// does.
[[nodiscard]] absl::StatusOr<std::vector<int32_t>> EndsOfAnswer(const std::string& folder, const Tokenizer& tokenizer);

}  // namespace distill
