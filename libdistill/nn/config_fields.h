// What is known about fields of config.json beside those that are read; inside nn/ only.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace distill {

// Fields of config.json for which any value but null and the neutral one changes the computation in a way that no model
// of the family here has. Names have spaces between them.
struct RefusedFields {
  absl::string_view neutral;  // JSON text; empty where null alone is neutral
  absl::string_view names;
};

struct FamilyFields {
  absl::Span<const RefusedFields> refused;
  absl::string_view harmless;        // honoured elsewhere, or known to change nothing that is computed here
  absl::string_view of_family = "";  // of the refused ones, those that this family honours; and further ones
};
extern const FamilyFields kDecoderFields, kEncoderFields;

// Whether a name is one of several with spaces between them.
bool IsAmong(absl::string_view name, absl::string_view names);

// Fields that change nothing that is computed, in any family.
bool IsBookkeepingField(absl::string_view name);

}  // namespace distill
