#include "launcher/local_job.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/rand.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/check.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// A port of this host that was free a moment ago; rank 0 listens on it.
absl::StatusOr<int> FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const bool bound = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (!bound) return absl::UnavailableError(absl::StrCat("no free port on loopback: ", std::strerror(error)));
  return ntohs(address.sin_port);
}

// Each rank leads a process group of its own, so that a script ends together with all that it has started.
struct Rank {
  pid_t pid = -1;
  bool running = false;
  bool was_told_to_end = false;
};

// As under mpirun, only rank 0 reads this process's input. From a terminal no rank does: it belongs to the launcher's
// process group, and a rank that read it would be stopped.
void TakeInput(int rank) {
  if (rank == 0 && isatty(STDIN_FILENO) == 0) return;
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing > STDIN_FILENO) dup2(nothing, STDIN_FILENO), close(nothing);
}

// In the child: becomes the program, or reports errno through `report`.
[[noreturn]] void BecomeProgram(const LocalJob& job, pid_t launcher, const sigset_t& old_mask, int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(1);  // the launcher died before the line above
  sigprocmask(SIG_SETMASK, &old_mask, nullptr);
  std::vector<char*> arguments;
  for (const std::string& argument : job.program) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(report, &error, sizeof(error));
  _exit(127);
}

absl::Status StartRank(const LocalJob& job, int rank, const sigset_t& old_mask, Rank& started) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return absl::ResourceExhaustedError(absl::StrCat("pipe: ", std::strerror(errno)));
  const pid_t launcher = getpid();
  started.pid = fork();
  if (started.pid == 0) {
    setenv("DISTILL_RANK", absl::StrCat(rank).c_str(), 1);
    setenv("DISTILL_LOCAL_RANK", absl::StrCat(rank).c_str(), 1);
    TakeInput(rank);
    BecomeProgram(job, launcher, old_mask, report[1]);
  }
  close(report[1]);
  int error = 0;
  const bool failed = started.pid < 0 || read(report[0], &error, sizeof(error)) == sizeof(error);
  if (started.pid < 0) error = errno;
  close(report[0]);
  if (failed) {
    if (started.pid > 0) waitpid(started.pid, nullptr, 0);  // it is about to _exit
    return absl::InvalidArgumentError(absl::StrCat("cannot start ", job.program[0], ": ", std::strerror(error)));
  }
  started.running = true;
  return absl::OkStatus();
}

void SignalAll(std::vector<Rank>& ranks, int signal) {
  for (Rank& rank : ranks) {
    if (!rank.running) continue;
    kill(-rank.pid, signal);
    rank.was_told_to_end = true;
  }
}

// All have the signal before the first acts on it, so that none reports another one as lost. Also ends ranks that are
// stopped.
void TerminateAll(std::vector<Rank>& ranks) {
  for (const int signal : {SIGSTOP, SIGTERM, SIGCONT}) SignalAll(ranks, signal);
}

int ExitCode(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

// Watches running ranks until none is left. After a failure or a signal it waits, then sends SIGTERM, then SIGKILL.
class Watch {
 public:
  Watch(const LocalJob& job, std::vector<Rank>& ranks) : job_(job), ranks_(ranks) {}

  int WaitForAll(int signal_fd) {
    while (Reap()) {
      pollfd poll_fd{signal_fd, POLLIN, 0};
      if (poll(&poll_fd, 1, phase_ == Phase::kRunning ? -1 : 100) > 0) TakeSignal(signal_fd);
      if (phase_ != Phase::kRunning && deadline_.Passed()) Escalate();
    }
    for (const Rank& rank : ranks_) {  // what a rank had started and left behind
      if (rank.was_told_to_end) kill(-rank.pid, SIGKILL);
    }
    return exit_code_;
  }

  void Terminate() {
    TerminateAll(ranks_);
    phase_ = Phase::kTerminating;
    deadline_ = Deadline::After(job_.termination_grace);
  }

 private:
  enum class Phase { kRunning, kFailed, kTerminating, kKilled };

  // Collects what has ended; true while some rank runs.
  bool Reap() {
    bool any_running = false;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (!ranks_[i].running) continue;
      int wait_status = 0;
      if (waitpid(ranks_[i].pid, &wait_status, WNOHANG) == ranks_[i].pid) {
        ranks_[i].running = false;
        NoteEnd(static_cast<int>(i), wait_status);
      } else {
        any_running = true;
      }
    }
    return any_running;
  }

  void NoteEnd(int rank, int wait_status) {
    const int code = ExitCode(wait_status);
    if (code == 0 || exit_code_ != 0) return;
    exit_code_ = code;
    if (phase_ != Phase::kRunning) return;
    if (WIFSIGNALED(wait_status)) {
      std::fprintf(stderr, "distillrun: rank %d was ended by signal %d (%s)\n", rank, WTERMSIG(wait_status),
                   strsignal(WTERMSIG(wait_status)));
    }
    failed_rank_ = rank;
    phase_ = Phase::kFailed;
    deadline_ = Deadline::After(job_.failure_grace);
  }

  void TakeSignal(int signal_fd) {
    signalfd_siginfo info;
    if (read(signal_fd, &info, sizeof(info)) != sizeof(info) || info.ssi_signo == SIGCHLD) return;
    if (exit_code_ == 0) exit_code_ = 128 + static_cast<int>(info.ssi_signo);
    if (phase_ == Phase::kRunning || phase_ == Phase::kFailed) {
      Terminate();
    } else {
      Escalate();  // asked twice
    }
  }

  void Escalate() {
    if (phase_ == Phase::kFailed) {
      std::fprintf(stderr, "distillrun: rank %d ended with exit code %d and others still run %s later: ending them\n",
                   failed_rank_, exit_code_, absl::FormatDuration(job_.failure_grace).c_str());
      Terminate();
    } else if (phase_ == Phase::kTerminating) {
      SignalAll(ranks_, SIGKILL);
      phase_ = Phase::kKilled;
      deadline_ = Deadline::Never();
    }
  }

  const LocalJob& job_;
  std::vector<Rank>& ranks_;
  Phase phase_ = Phase::kRunning;
  Deadline deadline_ = Deadline::Never();
  int exit_code_ = 0;
  int failed_rank_ = -1;
};

void ExportJob(const LocalJob& job, int port) {
  setenv("DISTILL_WORLD_SIZE", absl::StrCat(job.ranks).c_str(), 1);
  setenv("DISTILL_LOCAL_SIZE", absl::StrCat(job.ranks).c_str(), 1);
  setenv("DISTILL_RENDEZVOUS", absl::StrCat("127.0.0.1:", port).c_str(), 1);
  if (std::getenv("DISTILL_JOB_SECRET") == nullptr && std::getenv("DISTILL_JOB_SECRET_FILE") == nullptr) {
    setenv("DISTILL_JOB_SECRET", MakeJobSecret().c_str(), 1);
  }
  // libinfinipath, which libfabric brings along, answers signals with a stack trace unless it is told not to.
  setenv("IPATH_NO_BACKTRACE", "1", 0);
  for (const auto& [name, value] : job.environment) setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace

std::string MakeJobSecret() {
  unsigned char bytes[32];
  DISTILL_CHECK(RAND_bytes(bytes, sizeof(bytes)) == 1, "no random bytes for a job secret");
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes), sizeof(bytes)));
}

absl::StatusOr<int> RunLocalJob(const LocalJob& job) {
  DISTILL_ASSIGN_OR_RETURN(const int port, FreePort());
  ExportJob(job, port);

  sigset_t watched, old_mask;
  sigemptyset(&watched);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&watched, signal);
  sigprocmask(SIG_BLOCK, &watched, &old_mask);
  const int signal_fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);

  std::vector<Rank> ranks(job.ranks);
  Watch watch(job, ranks);
  absl::Status started;
  for (int rank = 0; rank < job.ranks && started.ok(); ++rank) started = StartRank(job, rank, old_mask, ranks[rank]);
  if (!started.ok()) watch.Terminate();
  const int exit_code = watch.WaitForAll(signal_fd);

  close(signal_fd);
  sigprocmask(SIG_SETMASK, &old_mask, nullptr);
  if (!started.ok()) return started;
  return exit_code;
}

}  // namespace distill
