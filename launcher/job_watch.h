// Watches the ranks of a job on this host until none is left, and decides when they are ended. Internal to launcher/.
#pragma once

#include <sys/types.h>

#include <vector>

#include "launcher/local_job.h"
#include "launcher/rank_output.h"
#include "launcher/watched_signals.h"
#include "libdistill/core/deadline.h"

namespace distill {

// Each rank leads a process group of its own, so that a script ends together with all that it has started.
struct Rank {
  pid_t pid = -1;
  bool running = false;
  int wait_status = 0;  // once it has run and ended
};

// After a failure or a signal it waits, then sends SIGTERM, then SIGKILL.
class JobWatch {
 public:
  JobWatch(const LocalJob& job, std::vector<Rank>& ranks, RankOutput& output)
      : job_(job), ranks_(ranks), output_(output) {}

  // Returns the job's exit code.
  int WaitForAll(const WatchedSignals& signals);
  // All have the signal before the first acts on it, so that none reports another one as lost. Also ends ranks that are
  // stopped.
  void Terminate(int signal);

 private:
  // kSaving: ranks have been told, or the first has ended with a checkpoint: the others are about to.
  enum class Phase { kRunning, kSaving, kFailed, kTerminating, kKilled };

  bool Reap();
  void NoteEnd(int rank);
  void TakeSignal(int signal);
  void Escalate();
  void EndAtOnce();
  void Report() const;
  bool EveryRankCatches(int signal) const;
  void SignalAll(int signal) const;
  void Tell(int signal) const;
  void Enter(Phase phase, absl::Duration grace);

  const LocalJob& job_;
  std::vector<Rank>& ranks_;
  RankOutput& output_;
  Phase phase_ = Phase::kRunning;
  Deadline deadline_ = Deadline::Never();
  int exit_code_ = 0;
  int failed_rank_ = -1;
  bool is_named_ = false;                                         // it has been, in a message
  Deadline same_notice_ = Deadline::After(absl::ZeroDuration());  // another SIGTERM before is the same one
  int told_ = 0;  // the signal that the ranks were told to save and end by
  bool checkpointed_ = false;
};

}  // namespace distill
