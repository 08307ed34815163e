// Sets options by name: their own, an alias, or another tool's that means the same.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/core/description.h"

namespace distill {

// What a name and a value of the user's come to.
struct MeantOption {
  const FieldDescription* field = nullptr;  // null: there is nothing to set, or it is a map
  std::string value = {};                   // in the field's own words
  std::string note = {};                    // for the user: what of this has no effect
  bool is_map = false;                      // of several options: "lr_scheduler_kwargs", or a section
};

// What the user calls it: "key" in files, "option" with dashes on command lines.
enum class NameKind { kKey, kOption };

// InvalidArgument: a name that no field has (with the nearest one, or this library's name for what another tool calls
// so), or a value of another tool that means nothing here (with the reason). A name in a section is "section.key".
[[nodiscard]] absl::StatusOr<MeantOption> FindOption(const Description& description, NameKind kind,
                                                     absl::string_view name, const std::string& value);

// A path's leading ~ becomes HOME. InvalidArgument says what was expected and what came; the caller adds where.
[[nodiscard]] absl::Status SetOption(const FieldDescription& field, const std::string& text);

// Whether it is what a config file may call a map: a section, or the first part of names with a dot.
bool IsMapName(const Description& description, absl::string_view name);

// Whether a command line where `next` (none: it ends) follows the option gives it no value, so that it is true.
// `takes_arguments`: what is no value of the option may be an argument of the program's.
bool StandsAlone(const Description& description, absl::string_view name, const std::optional<std::string>& next,
                 bool takes_arguments);

}  // namespace distill
