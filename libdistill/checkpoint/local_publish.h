// A save's files in a folder that people read with other programs: all of them are of one save. Inside checkpoint/
// only.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace distill {

// PublishFiles (checkpoint.h) into a local folder, after FinishPublishing.
[[nodiscard]] absl::Status PublishLocally(const std::string& folder,
                                          const std::function<absl::Status(const std::string& folder)>& write);

}  // namespace distill
