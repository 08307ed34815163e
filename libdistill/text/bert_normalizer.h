// BERT's normalizer, and the steps that it shares with others. Internal to text/.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "libdistill/text/normalized_text.h"
#include "libdistill/text/normalizer.h"
#include "libdistill/text/unicode.h"

namespace distill {

// Control characters go, white space becomes a space, spaces come around Chinese characters, accents go, capitals
// become small: each by an option. InvalidArgument: an option that is neither true nor false.
[[nodiscard]] absl::StatusOr<Normalizer::Step> BertNormalizer(const nlohmann::json& options);

void ApplyForm(UnicodeForm form, NormalizedText* text);
// One character of a text that is rewritten, in lower case.
void LowerCharacter(NormalizedText* text, char32_t c, size_t begin, size_t end);

}  // namespace distill
