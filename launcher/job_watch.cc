#include "launcher/job_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "launcher/guard.h"
#include "launcher/process_tree.h"
#include "launcher/start_program.h"
#include "libdistill/world/process.h"

namespace distill {
namespace {

// For whoever reads the output: a rank that nobody waits for has ended, only its last words are on the way.
constexpr absl::Duration kDrainLimit = absl::Seconds(2);
constexpr absl::Duration kKillLimit = absl::Seconds(10);

std::string DescribeEnd(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return absl::StrCat("ended with exit code ", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  return absl::StrCat("was ended by signal ", signal, " (", strsignal(signal), ")");
}

}  // namespace

int JobWatch::WaitForAll(const WatchedSignals& signals) {
  while (Reap()) {
    pollfd entries[] = {{signals.fd(), POLLIN, 0}, {job_.guard_fd, POLLIN, 0}};
    poll(entries, 2, phase_ == Phase::kRunning ? -1 : 100);
    while (const std::optional<int> signal = signals.Next()) TakeSignal(*signal);
    if (GuardIsGone(job_.guard_fd)) {
      KillDescendants(kKillLimit);
      return 128 + SIGKILL;
    }
    if (phase_ != Phase::kRunning && deadline_.Passed()) Escalate();
  }
  output_.Drain(phase_ == Phase::kRunning ? absl::InfiniteDuration() : kDrainLimit);
  Report();
  if (phase_ != Phase::kRunning) {  // what ranks had started and left behind
    for (const Rank& rank : ranks_) {
      if (rank.pid > 0) kill(-rank.pid, SIGKILL);
    }
    KillDescendants(kKillLimit);
  }
  if (exit_code_ != 0) return exit_code_;
  return checkpointed_ ? kExitCheckpointed : 0;
}

// Collects what has ended; true while some rank runs.
bool JobWatch::Reap() {
  bool any_running = false;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (!ranks_[i].running) continue;
    if (waitpid(ranks_[i].pid, &ranks_[i].wait_status, WNOHANG) == ranks_[i].pid) {
      ranks_[i].running = false;
      NoteEnd(static_cast<int>(i));
    } else {
      any_running = true;
    }
  }
  return any_running;
}

void JobWatch::NoteEnd(int rank) {
  const int wait_status = ranks_[static_cast<size_t>(rank)].wait_status;
  const int code = ExitCodeOf(wait_status);
  if (code == kExitCheckpointed) {
    checkpointed_ = true;
    if (phase_ == Phase::kRunning) Enter(Phase::kSaving, job_.notice_grace);
    return;
  }
  if (code == 0 || exit_code_ != 0) return;
  exit_code_ = code;
  if (phase_ != Phase::kRunning && phase_ != Phase::kSaving) return;
  failed_rank_ = rank;
  if (WIFSIGNALED(wait_status)) {
    output_.Drain(kDrainLimit);
    std::fprintf(stderr, "distillrun: rank %d %s\n", rank, DescribeEnd(wait_status).c_str());
    is_named_ = true;
  }
  Enter(Phase::kFailed, job_.failure_grace);
}

void JobWatch::TakeSignal(int signal) {
  if (signal == SIGCHLD) return;
  if (signal != SIGTERM && signal != SIGINT) {
    if (signal != SIGHUP) Tell(signal);
    return;
  }
  if (phase_ == Phase::kRunning || phase_ == Phase::kFailed || (phase_ == Phase::kSaving && told_ == 0)) {
    if (signal == SIGTERM && phase_ != Phase::kFailed && EveryRankCatches(SIGTERM)) {
      told_ = signal;
      same_notice_ = Deadline::After(kSameNotice);
      Tell(signal);
      std::fprintf(stderr, "distillrun: SIGTERM: passed on to the ranks; those that run %s later are ended\n",
                   absl::FormatDuration(job_.notice_grace).c_str());
      return Enter(Phase::kSaving, job_.notice_grace);
    }
    if (exit_code_ == 0) exit_code_ = 128 + signal;
    same_notice_ = Deadline::After(kSameNotice);
    return Terminate(signal);
  }
  if (signal == SIGTERM && !same_notice_.Passed()) return;
  if (exit_code_ == 0) exit_code_ = 128 + signal;
  EndAtOnce();  // asked twice
}

void JobWatch::Escalate() {
  if (phase_ == Phase::kFailed) {
    std::fprintf(stderr, "distillrun: rank %d ended with exit code %d and others still run %s later: ending them\n",
                 failed_rank_, exit_code_, absl::FormatDuration(job_.failure_grace).c_str());
    is_named_ = true;
    Terminate(SIGTERM);
  } else if (phase_ == Phase::kSaving) {
    std::fprintf(stderr, "distillrun: ranks still run %s after they were to save and end: ending them\n",
                 absl::FormatDuration(job_.notice_grace).c_str());
    if (!checkpointed_ && exit_code_ == 0) exit_code_ = 128 + told_;
    Terminate(SIGTERM);
  } else if (phase_ == Phase::kTerminating) {
    EndAtOnce();
  }
}

void JobWatch::Terminate(int signal) {
  for (const int number : {SIGSTOP, signal, SIGCONT}) SignalAll(number);
  Enter(Phase::kTerminating, job_.termination_grace);
}

void JobWatch::EndAtOnce() {
  SignalAll(SIGKILL);
  Enter(Phase::kKilled, absl::InfiniteDuration());
}

void JobWatch::Enter(Phase phase, absl::Duration grace) {
  phase_ = phase;
  deadline_ = grace == absl::InfiniteDuration() ? Deadline::Never() : Deadline::After(grace);
}

void JobWatch::SignalAll(int signal) const {
  for (const Rank& rank : ranks_) {
    if (rank.running) kill(-rank.pid, signal);
  }
}

// To those that have a handler: it would end a script around the program. To all, where nobody has one.
void JobWatch::Tell(int signal) const {
  for (const Rank& rank : ranks_) {
    if (!rank.running) continue;
    const std::vector<pid_t> catching = WhoCatches(rank.pid, signal);
    for (const pid_t pid : catching) kill(pid, signal);
    if (catching.empty()) kill(-rank.pid, signal);
  }
}

bool JobWatch::EveryRankCatches(int signal) const {
  for (const Rank& rank : ranks_) {
    if (rank.running && WhoCatches(rank.pid, signal).empty()) return false;
  }
  return true;
}

// Who was first, where what the ranks have said does not show it: the program itself reports an error that all share.
void JobWatch::Report() const {
  if (failed_rank_ < 0) return;
  const int wait_status = ranks_[static_cast<size_t>(failed_rank_)].wait_status;
  const std::string last = output_.OthersWroteAfter(failed_rank_) ? output_.LastLines(failed_rank_) : "";
  bool same = true;
  for (const Rank& rank : ranks_) same = same && rank.wait_status == wait_status;
  if (last.empty() && (same || is_named_)) return;
  std::fprintf(stderr, "distillrun: rank %d %s, before the others%s\n", failed_rank_, DescribeEnd(wait_status).c_str(),
               last.empty() ? "" : "; its last lines:");
  if (last.empty()) return;
  const std::string begin = absl::StrCat("rank ", failed_rank_, ": ");
  std::fprintf(stderr, "%s%s\n", begin.c_str(), absl::StrReplaceAll(last, {{"\n", "\n" + begin}}).c_str());
}

}  // namespace distill
