// The border between torch, which throws, and the rest, which returns Status.
//
//   return CatchTorch([&]() -> absl::Status { ...; return absl::OkStatus(); });
#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace distill {

// A Status on its way through code that only throws, as a hook of autograd's.
class StatusError : public std::runtime_error {
 public:
  explicit StatusError(absl::Status status)
      : std::runtime_error(std::string(status.message())), status_(std::move(status)) {}
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

// The value; an error is thrown as a StatusError.
template <typename T>
T OrThrow(absl::StatusOr<T> value) {
  if (!value.ok()) throw StatusError(std::move(value).status());
  return *std::move(value);
}

// In the message of what reads a tensor whose values are not there (tensor/unbacked.h).
inline constexpr char kNotInMemory[] = " is not in memory: ";

// What `body` returns; an exception out of it becomes ResourceExhausted (memory, of the host or a GPU), InvalidArgument
// (values and types that torch refuses), Unimplemented, FailedPrecondition (kNotInMemory), or Internal, with torch's
// message but not its C++ trace; a StatusError the Status that it carries.
[[nodiscard]] absl::Status CatchTorch(absl::FunctionRef<absl::Status()> body);
// Of a body that returns nothing: OkStatus where it throws nothing.
template <typename Body>
requires std::is_void_v<std::invoke_result_t<Body>>
[[nodiscard]] absl::Status CatchTorch(Body&& body) {
  return CatchTorch([&]() -> absl::Status { return body(), absl::OkStatus(); });
}

}  // namespace distill
