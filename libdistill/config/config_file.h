// Config files: YAML, or JSON, which YAML contains.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libdistill/core/description.h"

namespace distill {

// Sets what the file holds: flat names, aliases, and maps of them (Description::Section, and names with dots); null
// leaves the default. InvalidArgument names file, line, section and key: an unknown key (with the nearest known one), a
// key given twice, a value of the wrong kind or out of range. NotFound: no such file. `notes` gets what has no effect.
[[nodiscard]] absl::Status ReadConfigFile(const std::string& path, const Description& description,
                                          std::vector<std::string>& notes);

// Sets what a map on a command line holds: "{min_lr_rate: 0.1}" of `name`. Errors as above, without file and line.
[[nodiscard]] absl::Status ReadConfigMap(const std::string& name, const std::string& text,
                                         const Description& description, std::vector<std::string>& notes);

// "name: value" a line, which ReadConfigFile reads back to the same values.
std::string ValuesToYaml(const FieldValues& values);

// The names and values of such lines, whatever options there are. InvalidArgument: it is no such text.
[[nodiscard]] absl::StatusOr<FieldValues> ValuesFromYaml(const std::string& text);

}  // namespace distill
