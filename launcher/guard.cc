#include "launcher/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "launcher/process_tree.h"

namespace distill {
namespace {

constexpr absl::Duration kGuardKillLimit = absl::Seconds(10);

[[noreturn]] void RunJob(absl::FunctionRef<int(int)> job, int guard_fd) {
  setpgid(0, 0);  // the terminal's signals come to the guard, which passes them on
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signal(SIGTTOU, SIG_IGN);
  const int code = job(guard_fd);
  std::fflush(nullptr);
  _exit(code);
}

// The exit code of the job's process, once it has ended.
int PassSignalsOn(const WatchedSignals& signals, pid_t job) {
  for (;;) {
    pollfd entry = {signals.fd(), POLLIN, 0};
    poll(&entry, 1, -1);
    while (const std::optional<int> number = signals.Next()) {
      if (*number == SIGHUP) {
        std::fputs("distillrun: SIGHUP: the terminal is gone, the job keeps running (SIGTERM or SIGINT ends it)\n",
                   stderr);
      } else if (*number != SIGCHLD) {
        kill(job, *number);
      }
    }
    int wait_status = 0;
    for (pid_t ended = 0; (ended = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
      if (ended != job) continue;
      if (!WIFSIGNALED(wait_status)) return WEXITSTATUS(wait_status);
      std::fprintf(stderr,
                   "distillrun: its process that watches the ranks was ended by signal %d (%s): ending the job\n",
                   WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
      KillDescendants(kGuardKillLimit);
      return 128 + WTERMSIG(wait_status);
    }
  }
}

}  // namespace

int RunGuarded(absl::FunctionRef<int(int)> job) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::perror("distillrun: pipe"), 2;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const WatchedSignals signals;
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return std::perror("distillrun: fork"), 2;
  if (child == 0) {
    close(ends[1]);
    signals.Restore();
    RunJob(job, ends[0]);
  }
  close(ends[0]);
  const int code = PassSignalsOn(signals, child);
  close(ends[1]);
  return code;
}

bool GuardIsGone(int guard_fd) {
  pollfd entry = {guard_fd, POLLIN, 0};
  return guard_fd >= 0 && poll(&entry, 1, 0) > 0;
}

}  // namespace distill
