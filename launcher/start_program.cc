#include "launcher/start_program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace distill {
namespace {

// In the child: becomes the program, or reports errno through `report`.
[[noreturn]] void BecomeProgram(const std::vector<std::string>& program, pid_t launcher, int report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(1);  // the launcher died before the line above
  std::vector<char*> arguments;
  for (const std::string& argument : program) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(report, &error, sizeof(error));
  _exit(127);
}

}  // namespace

absl::StatusOr<pid_t> StartProgram(const std::vector<std::string>& program, absl::FunctionRef<void()> prepare) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return absl::ResourceExhaustedError(absl::StrCat("pipe: ", std::strerror(errno)));
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    prepare();
    BecomeProgram(program, launcher, report[1]);
  }
  int error = errno;
  close(report[1]);
  const bool failed = pid < 0 || read(report[0], &error, sizeof(error)) == sizeof(error);
  close(report[0]);
  if (!failed) return pid;
  if (pid < 0)
    return absl::ResourceExhaustedError(absl::StrCat("no process for ", program[0], ": ", std::strerror(error)));
  waitpid(pid, nullptr, 0);  // it is about to _exit
  return absl::InvalidArgumentError(absl::StrCat("cannot start ", program[0], ": ", std::strerror(error)));
}

int ExitCodeOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace distill
