// Crashes belong to the program: a core file or a debugger's, not a vendor library's.
#pragma once

namespace distill {

// libinfinipath, which libfabric brings along on many systems, takes the signals of crashes, SIGINT and SIGTERM when
// the program is loaded, and answers each with a stack trace on stderr and a file in the working directory. This gives
// those signals their default action back; handlers of anybody else stay. Idempotent; not while other threads set
// handlers.
void TakeBackCrashSignals();

}  // namespace distill
