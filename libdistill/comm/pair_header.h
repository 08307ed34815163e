// What goes ahead of a message between two ranks, so that the receiver takes no other for the one that it expects.
// Internal to comm/.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/dtype.h"

namespace distill {

struct PairHeader {
  int64_t count;
  int64_t dtype;  // a DType
};

// FailedPrecondition, with both views, where a rank sends `sent` and the other one receives `expected`.
[[nodiscard]] inline absl::Status Compare(const PairHeader& sent, const std::string& sender, const PairHeader& expected,
                                          const std::string& receiver) {
  if (sent.count == expected.count && sent.dtype == expected.dtype) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "ranks do not make the same calls: ", sender, " sends ", sent.count, " ", NameOf(static_cast<DType>(sent.dtype)),
      ", ", receiver, " receives ", expected.count, " ", NameOf(static_cast<DType>(expected.dtype))));
}

}  // namespace distill
