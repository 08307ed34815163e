#include "tests/support/traced.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace distill::testing {
namespace {

constexpr int kRefusedCode = 99;

[[noreturn]] void RunTraced(const std::function<absl::Status()>& body) {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kRefusedCode);
  raise(SIGSTOP);
  const absl::Status status = body();
  if (!status.ok()) std::fprintf(stderr, "the traced body: %s\n", status.ToString().c_str());
  std::fflush(nullptr);
  _exit(status.ok() ? 0 : 1);
}

// Whether the child stands before a call, rather than behind one.
bool ReadCall(pid_t child, TracedCall& call) {
  __ptrace_syscall_info info = {};
  if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) <= 0) return false;
  if (info.op != PTRACE_SYSCALL_INFO_ENTRY) return false;
  call = {.process = child, .number = static_cast<long>(info.entry.nr)};
  std::copy(std::begin(info.entry.args), std::end(info.entry.args), call.arguments);
  return true;
}

std::string TextAt(pid_t process, uint64_t address) {
  std::ifstream memory(absl::StrCat("/proc/", process, "/mem"), std::ios::binary);
  memory.seekg(static_cast<std::streamoff>(address));
  std::string text;
  std::getline(memory, text, '\0');
  return text;
}

TraceEnd EndOf(int wait_status) {
  if (!WIFEXITED(wait_status)) return TraceEnd::kFailed;
  const int code = WEXITSTATUS(wait_status);
  return code == 0 ? TraceEnd::kFinished : code == kRefusedCode ? TraceEnd::kRefused : TraceEnd::kFailed;
}

}  // namespace

TraceEnd Trace(const std::function<absl::Status()>& body, const std::function<bool(const TracedCall&)>& kill_before) {
  constexpr int kStopForCall = SIGTRAP | 0x80;  // PTRACE_O_TRACESYSGOOD
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) RunTraced(body);
  int wait_status = 0;
  if (child < 0 || waitpid(child, &wait_status, 0) != child) return TraceEnd::kRefused;
  if (!WIFSTOPPED(wait_status)) return EndOf(wait_status);
  ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  for (long signal = 0;;) {
    ptrace(PTRACE_SYSCALL, child, nullptr, signal);
    if (waitpid(child, &wait_status, 0) != child) return TraceEnd::kFailed;
    if (!WIFSTOPPED(wait_status)) return EndOf(wait_status);
    signal = WSTOPSIG(wait_status) == kStopForCall ? 0 : WSTOPSIG(wait_status);
    TracedCall call;
    if (signal != 0 || !ReadCall(child, call) || !kill_before(call)) continue;
    kill(child, SIGKILL);
    waitpid(child, &wait_status, 0);
    return TraceEnd::kKilled;
  }
}

std::string FileOf(const TracedCall& call) {
  char path[4096] = {};
  const std::string link = absl::StrCat("/proc/", call.process, "/fd/", static_cast<int>(call.arguments[0]));
  return readlink(link.c_str(), path, sizeof(path) - 1) < 0 ? "" : path;
}

std::vector<std::string> PathsOf(const TracedCall& call) {
  switch (call.number) {
#ifdef SYS_rename
    case SYS_rename:
      return {TextAt(call.process, call.arguments[0]), TextAt(call.process, call.arguments[1])};
    case SYS_unlink:
    case SYS_rmdir:
      return {TextAt(call.process, call.arguments[0])};
#endif
    case SYS_renameat:
    case SYS_renameat2:
      return {TextAt(call.process, call.arguments[1]), TextAt(call.process, call.arguments[3])};
    case SYS_unlinkat:
      return {TextAt(call.process, call.arguments[1])};
    default:
      return {};
  }
}

bool ChangesNames(const TracedCall& call) {
  constexpr long kNumbers[] = {
#ifdef SYS_rename  // newer kinds of CPU have the longer forms alone
      SYS_rename,   SYS_unlink,    SYS_rmdir,    SYS_mkdir,
#endif
      SYS_renameat, SYS_renameat2, SYS_unlinkat, SYS_mkdirat,
  };
  return std::find(std::begin(kNumbers), std::end(kNumbers), call.number) != std::end(kNumbers);
}

}  // namespace distill::testing
