// Runs a piece of a test in a child process and watches its system calls one by one, by ptrace: what it does to files,
// and what is left when it is killed before any one of them.
//
//   const TraceEnd end = Trace([&] { return Publish(); }, [&](const TracedCall& call) { return ++calls == 5; });
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace distill::testing {

struct TracedCall {
  pid_t process = 0;
  long number = 0;  // SYS_rename, ...
  uint64_t arguments[6] = {};
};

enum class TraceEnd {
  kFinished,  // the body returned OK
  kFailed,    // it returned something else, or crashed
  kKilled,    // before a call, as was asked
  kRefused,   // this system lets nobody trace: the test is skipped
};

// `kill_before` is asked before each system call of the body; true ends the process with SIGKILL, and the call is not
// made.
TraceEnd Trace(const std::function<absl::Status()>& body, const std::function<bool(const TracedCall&)>& kill_before);

// What the call's first argument, a descriptor, is open on.
std::string FileOf(const TracedCall& call);

// The paths that it gets, as it gets them: of a rename, old and new; of an unlink or rmdir, one. None of other calls.
std::vector<std::string> PathsOf(const TracedCall& call);

// Whether the call changes what names a disk holds: it renames, removes or makes something.
bool ChangesNames(const TracedCall& call);

}  // namespace distill::testing
