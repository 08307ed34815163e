// One child that becomes a program.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace distill {

// Forks; the child calls `prepare` and becomes the program. It is killed when the thread that calls this ends.
// InvalidArgument: the program cannot be started; ResourceExhausted: no process or pipe.
[[nodiscard]] absl::StatusOr<pid_t> StartProgram(const std::vector<std::string>& program,
                                                 absl::FunctionRef<void()> prepare);

// 128 + the signal that ended it, or its exit code.
int ExitCodeOf(int wait_status);

}  // namespace distill
