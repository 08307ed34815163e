// What is known about fields of config.json beside those that DecoderConfig holds; inside nn/ only.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"

namespace distill {

// Fields of config.json for which any value but null and the neutral one changes the computation in a way that no model
// here has. `neutral` is JSON text; empty when null alone is neutral.
struct RefusedField {
  absl::string_view name;
  absl::string_view neutral;
};
const std::vector<RefusedField>& RefusedFields();

// Fields that are honoured elsewhere or known to change nothing that is computed here.
bool IsHarmlessField(absl::string_view name);

}  // namespace distill
