// What ranks ask for with a variable of their environments that is 0 (not at all), 1 (in any case) or not there.
// Internal to comm/.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace distill {

// The one wish of those ranks that have any; empty: none has. `names`: of the ranks, for messages. InvalidArgument:
// another value. FailedPrecondition: ranks wish for different things.
[[nodiscard]] absl::StatusOr<std::string> CommonWish(const std::string& variable,
                                                     const std::vector<std::string>& wishes,
                                                     const std::vector<std::string>& names);

}  // namespace distill
