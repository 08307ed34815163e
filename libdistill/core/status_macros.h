// Early return of errors, and context added on the way up.
//
//   DISTILL_RETURN_IF_ERROR(Save(path));
//   DISTILL_ASSIGN_OR_RETURN(auto file, File::Open(path));
//   if (!status.ok()) return Annotate(status, "while loading the teacher");
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#define DISTILL_RETURN_IF_ERROR(expression)                                                      \
  do {                                                                                           \
    if (absl::Status distill_status = (expression); !distill_status.ok()) return distill_status; \
  } while (false)

#define DISTILL_CONCAT_INNER(a, b) a##b
#define DISTILL_CONCAT(a, b) DISTILL_CONCAT_INNER(a, b)

#define DISTILL_ASSIGN_OR_RETURN(target, expression) \
  DISTILL_ASSIGN_OR_RETURN_INNER(DISTILL_CONCAT(distill_status_or_, __LINE__), target, expression)

#define DISTILL_ASSIGN_OR_RETURN_INNER(temporary, target, expression) \
  auto temporary = (expression);                                      \
  if (!temporary.ok()) return std::move(temporary).status();          \
  target = std::move(temporary).value()

namespace distill {

// The same code, with `context` before the message: "context: message". OK stays OK.
[[nodiscard]] absl::Status Annotate(const absl::Status& status, absl::string_view context);

}  // namespace distill
