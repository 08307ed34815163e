// Log lines on stderr: time, rank, level, message. DISTILL_LOG_LEVEL (debug, info, warning, error) sets what is shown.
//
//   LogInfo(absl::StrCat("read ", rows, " rows from ", path));
//
// Info lines come from rank 0 alone; warnings and errors from any rank.
#pragma once

#include "absl/strings/string_view.h"

namespace distill {

void LogDebug(absl::string_view message);
void LogInfo(absl::string_view message);
void LogWarning(absl::string_view message);
void LogError(absl::string_view message);

}  // namespace distill
