// What ranks are told that do not make the same calls, whoever notices it: the debug mode or a backend in the call
// (comm/same_calls.h), rank 0 from the heartbeats, or the fabric when a message has another length.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace distill {

// FailedPrecondition: "ranks do not make the same calls: FIRST, SECOND". Each view says which rank does what, such as
// "rank 0 on host-a calls barrier".
[[nodiscard]] inline absl::Status DifferentCalls(absl::string_view first, absl::string_view second) {
  return absl::FailedPreconditionError(absl::StrCat("ranks do not make the same calls: ", first, ", ", second));
}

}  // namespace distill
