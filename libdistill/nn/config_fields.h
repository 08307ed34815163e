// What is known about fields of config.json beside those that are read; inside nn/ only.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"

namespace distill {

// Fields of config.json for which any value but null and the neutral one changes the computation in a way that no model
// of the family here has. `neutral` is JSON text; empty when null alone is neutral.
struct RefusedField {
  absl::string_view name;
  absl::string_view neutral;
};

struct FamilyFields {
  std::vector<RefusedField> refused;
  std::vector<absl::string_view> harmless;  // honoured elsewhere, or known to change nothing that is computed here
};
const FamilyFields& DecoderFields();
const FamilyFields& EncoderFields();

// Fields that change nothing that is computed, in any family.
bool IsBookkeepingField(absl::string_view name);

}  // namespace distill
