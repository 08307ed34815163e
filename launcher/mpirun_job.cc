#include "launcher/mpirun_job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "launcher/guard.h"
#include "launcher/process_tree.h"
#include "launcher/start_program.h"
#include "launcher/watched_signals.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr absl::Duration kGuardGrace = absl::Seconds(5);
constexpr absl::Duration kMpirunKillLimit = absl::Seconds(5);

void SetUnlessThere(const char* name, const char* value) { setenv(name, value, /*overwrite=*/0); }

// "--mca NAME VALUE", with one or two dashes, also as gmca.
bool IsOnCommandLine(const std::vector<std::string>& command, absl::string_view name) {
  for (size_t i = 0; i + 1 < command.size(); ++i) {
    if (absl::EndsWith(command[i], "mca") && absl::StartsWith(command[i], "-") && command[i + 1] == name) return true;
  }
  return false;
}

bool HasOwnAgent(const std::vector<std::string>& command) {
  for (const char* name : {"plm_rsh_agent", "orte_rsh_agent", "pls_rsh_agent"}) {
    if (std::getenv(absl::StrCat("OMPI_MCA_", name).c_str()) != nullptr || IsOnCommandLine(command, name)) return true;
  }
  return false;
}

class MpirunWatch {
 public:
  MpirunWatch(const MpirunJob& job, pid_t mpirun) : job_(job), mpirun_(mpirun) {}

  int Wait(const WatchedSignals& signals) {
    int wait_status = 0;
    while (waitpid(mpirun_, &wait_status, WNOHANG) != mpirun_) {
      pollfd entries[] = {{signals.fd(), POLLIN, 0}, {job_.guard_fd, POLLIN, 0}};
      poll(entries, job_.guard_fd >= 0 && !ending_ ? 2 : 1, 100);
      while (const std::optional<int> signal = signals.Next()) Take(*signal);
      if (!ending_ && GuardIsGone(job_.guard_fd)) End(SIGTERM, kGuardGrace);
      if (!deadline_.Passed()) continue;
      if (ending_) {
        KillDescendants(kMpirunKillLimit);
        return end_code_ != 0 ? end_code_ : 128 + SIGKILL;
      }
      std::fprintf(stderr, "distillrun: ranks still run %s after they were to save and end: ending them\n",
                   absl::FormatDuration(job_.notice_grace).c_str());
      End(SIGTERM, job_.termination_grace);
    }
    KillDescendants(kMpirunKillLimit);  // orted and ssh, where mpirun has left some behind
    const int code = ExitCodeOf(wait_status);
    const bool by_notice = end_code_ == 128 + SIGTERM && code == 128 + SIGUSR1;
    return by_notice || (code == 0 && ending_) ? end_code_ : code;
  }

 private:
  void Take(int signal) {
    if (signal == SIGCHLD || signal == SIGHUP) return;
    if (signal == SIGUSR1 || signal == SIGUSR2) {
      kill(mpirun_, signal);
    } else if (signal == SIGTERM && !same_notice_.Passed()) {
      return;
    } else if (end_code_ != 0) {  // asked twice
      ending_ = true;
      deadline_ = Deadline::After(absl::ZeroDuration());
    } else {
      end_code_ = 128 + signal;
      same_notice_ = Deadline::After(kSameNotice);
      if (signal != SIGTERM) return End(SIGTERM, job_.termination_grace);
      std::fprintf(stderr, "distillrun: SIGTERM: the ranks get SIGUSR1; those that run %s later are ended\n",
                   absl::FormatDuration(job_.notice_grace).c_str());
      kill(mpirun_, SIGUSR1);
      deadline_ = Deadline::After(job_.notice_grace);
    }
  }

  void End(int signal, absl::Duration grace) {
    ending_ = true;
    kill(mpirun_, signal);
    deadline_ = Deadline::After(grace);
  }

  const MpirunJob& job_;
  const pid_t mpirun_;
  Deadline deadline_ = Deadline::Never();
  Deadline same_notice_ = Deadline::After(absl::ZeroDuration());  // another SIGTERM before is the same one
  bool ending_ = false;
  int end_code_ = 0;  // 128 + the signal that the user has sent
};

}  // namespace

absl::StatusOr<int> RunMpirun(const MpirunJob& job) {
  const WatchedSignals signals;
  DISTILL_ASSIGN_OR_RETURN(const pid_t mpirun, StartProgram(job.command, [&] {
                             const int nothing = isatty(STDIN_FILENO) == 1 ? open("/dev/null", O_RDONLY) : -1;
                             if (nothing >= 0) dup2(nothing, STDIN_FILENO), close(nothing);
                             signals.Restore();
                           }));
  return MpirunWatch(job, mpirun).Wait(signals);
}

void PrepareMpirun(const std::vector<std::string>& command) {
  if (geteuid() == 0) {  // containers run as root as a rule; mpirun refuses that unless it is told
    SetUnlessThere("OMPI_ALLOW_RUN_AS_ROOT", "1");
    SetUnlessThere("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  // ssh alone would try a host that does not answer for more than two minutes. Another agent has options of its own.
  if (!HasOwnAgent(command)) SetUnlessThere("OMPI_MCA_plm_rsh_args", "-o ConnectTimeout=15 -o ConnectionAttempts=1");
  // A link that is cut is noticed after 5 + 5 * 2 s, on both of its sides; Open MPI's own values come to eight minutes.
  SetUnlessThere("OMPI_MCA_oob_tcp_keepalive_time", "5");
  SetUnlessThere("OMPI_MCA_oob_tcp_keepalive_intvl", "2");
  SetUnlessThere("OMPI_MCA_oob_tcp_keepalive_probes", "5");
}

}  // namespace distill
