#include "launcher/local_job.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "launcher/job_secret.h"
#include "launcher/job_watch.h"
#include "launcher/start_program.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/handed_socket.h"
#include "libdistill/world/process.h"
#include "libdistill/world/socket.h"

namespace distill {
namespace {

// As under mpirun, only rank 0 reads this process's input. From a terminal no rank does: it belongs to the launcher's
// process group, and a rank that read it would be stopped.
void TakeInput(int rank) {
  if (rank == 0 && isatty(STDIN_FILENO) == 0) return;
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing > STDIN_FILENO) dup2(nothing, STDIN_FILENO), close(nothing);
}

// The pipe by which ranks end with this process (world/process.h): nothing is ever written to it.
struct LauncherPipe {
  LauncherPipe() {
    if (pipe2(ends, O_CLOEXEC) != 0) ends[0] = ends[1] = -1;
  }
  ~LauncherPipe() {
    for (const int end : ends) {
      if (end >= 0) close(end);
    }
  }
  // In a rank.
  void Inherit() const {
    struct stat about = {};
    if (ends[0] < 0 || fstat(ends[0], &about) != 0) return;
    fcntl(ends[0], F_SETFD, 0);
    setenv(kLauncherPipe, absl::StrCat(ends[0], ":", about.st_ino).c_str(), 1);
  }
  int ends[2];
};

// What the ranks inherit.
struct Inherited {
  LauncherPipe pipe;
  Socket meeting;  // rank 0: where the ranks meet
};

absl::Status StartRank(const LocalJob& job, int rank, const Inherited& inherited, const WatchedSignals& signals,
                       RankOutput& output, Rank& started) {
  const int own_stderr = output.OpenFor(rank);
  const absl::StatusOr<pid_t> pid = StartProgram(job.program, [&] {
    setpgid(0, 0);
    setenv("DISTILL_RANK", absl::StrCat(rank).c_str(), 1);
    setenv("DISTILL_LOCAL_RANK", absl::StrCat(rank).c_str(), 1);
    inherited.pipe.Inherit();
    if (rank == 0) HandOver(inherited.meeting);
    TakeInput(rank);
    if (own_stderr >= 0) dup2(own_stderr, STDERR_FILENO);
    signals.Restore();
    signal(SIGTTOU, SIG_DFL);
  });
  if (own_stderr >= 0) close(own_stderr);
  if (!pid.ok()) return pid.status();
  started.pid = *pid;
  started.running = true;
  return absl::OkStatus();
}

void ExportJob(const LocalJob& job, const std::string& port) {
  setenv("DISTILL_WORLD_SIZE", absl::StrCat(job.ranks).c_str(), 1);
  setenv("DISTILL_LOCAL_SIZE", absl::StrCat(job.ranks).c_str(), 1);
  setenv("DISTILL_RENDEZVOUS", absl::StrCat("127.0.0.1:", port).c_str(), 1);
  ExportJobSecret();
  // libinfinipath, which libfabric brings along, answers signals with a stack trace unless it is told not to.
  setenv("IPATH_NO_BACKTRACE", "1", 0);
  for (const auto& [name, value] : job.environment) setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace

absl::StatusOr<int> RunLocalJob(const LocalJob& job) {
  Inherited inherited;
  DISTILL_ASSIGN_OR_RETURN(inherited.meeting, BindFreePort());
  ExportJob(job, LocalPort(inherited.meeting));
  const WatchedSignals signals;
  RankOutput output(job.ranks);
  std::vector<Rank> ranks(static_cast<size_t>(job.ranks));
  JobWatch watch(job, ranks, output);
  absl::Status started;
  for (int rank = 0; rank < job.ranks && started.ok(); ++rank) {
    started = StartRank(job, rank, inherited, signals, output, ranks[static_cast<size_t>(rank)]);
  }
  // From here on it is rank 0's alone: when that ends, nobody listens.
  inherited.meeting = Socket();
  started.Update(output.Start());
  if (!started.ok()) watch.Terminate(SIGTERM);
  const int exit_code = watch.WaitForAll(signals);
  if (!started.ok()) return started;
  return exit_code;
}

}  // namespace distill
