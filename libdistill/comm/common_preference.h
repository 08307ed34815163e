// What ranks ask for with a variable of their environments that is 0 (not at all), 1 (in any case) or not there.
// Internal to comm/.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace distill {

// The one preference of those ranks that have any; empty: none has. `names`: of the ranks, for messages.
// InvalidArgument: another value. FailedPrecondition: ranks prefer different things.
[[nodiscard]] absl::StatusOr<std::string> CommonPreference(const std::string& variable,
                                                           const std::vector<std::string>& preferences,
                                                           const std::vector<std::string>& names);

}  // namespace distill
