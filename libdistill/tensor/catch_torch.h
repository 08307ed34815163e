// The border between torch, which throws, and the rest, which returns Status.
//
//   return CatchTorch([&]() -> absl::Status { ...; return absl::OkStatus(); });
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace distill {

// What `body` returns; an exception out of it becomes ResourceExhausted (memory, of the host or a GPU), InvalidArgument
// (values and types that torch refuses), Unimplemented, or Internal, with torch's message but not its C++ trace.
[[nodiscard]] absl::Status CatchTorch(absl::FunctionRef<absl::Status()> body);

}  // namespace distill
