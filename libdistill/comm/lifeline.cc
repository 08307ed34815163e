#include "libdistill/comm/lifeline.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"

namespace distill {
namespace {

constexpr absl::Duration kLongestLook = absl::Seconds(1);

}  // namespace

Lifeline::~Lifeline() {
  if (rendezvous_ != nullptr) rendezvous_->CompareCalls(nullptr);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (watchdog_.joinable()) watchdog_.join();
}

absl::Status Lifeline::Attach(std::shared_ptr<Rendezvous> rendezvous, absl::Duration timeout, absl::Duration grace,
                              std::function<std::string(const CommCall&)> describe) {
  rendezvous_ = std::move(rendezvous);
  timeout_ = timeout;
  describe_ = std::move(describe);
  rendezvous_->CompareCalls([this] { return LastCalls(); });
  absl::StatusOr<std::thread> watchdog = StartThread("the watchdog of collectives", [this, grace] { Watch(grace); });
  if (watchdog.ok()) watchdog_ = *std::move(watchdog);
  return watchdog.status();
}

std::vector<CallView> Lifeline::LastCalls() const {
  std::vector<CallView> views;
  for (const CommCall& call : board_.Read()) views.push_back({call.number, Describe(call.signature())});
  return views;
}

void Lifeline::Abort(const absl::Status& error) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (abort_error_.ok()) abort_error_ = error;
  }
  aborted_.store(true, std::memory_order_release);
  Announce(error);
}

void Lifeline::Announce(const absl::Status& error) {
  if (rendezvous_ != nullptr) rendezvous_->Announce(error);
}

absl::Status Lifeline::Check() const {
  if (aborted_.load(std::memory_order_acquire)) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return abort_error_;
  }
  return rendezvous_ != nullptr ? rendezvous_->CheckPeers() : absl::OkStatus();
}

absl::Status Lifeline::FindLate(int64_t call, const absl::Status& status) const {
  constexpr absl::Duration kLook = absl::Milliseconds(5);
  if (rendezvous_ == nullptr) return status;
  DISTILL_RETURN_IF_ERROR(Check());
  const Deadline answer = Deadline::After(rendezvous_->ReportLate(call, timeout_));
  for (; !answer.Passed(); absl::SleepFor(kLook)) DISTILL_RETURN_IF_ERROR(Check());
  return absl::DeadlineExceededError(absl::StrCat(
      status.message(), " (that rank may itself be waiting: no rank is known not to have made this call)"));
}

absl::Status Lifeline::NameOverdue(const absl::Status& status) const {
  const std::string overdue = rendezvous_ != nullptr ? rendezvous_->busy()->DescribeOverdue() : "";
  return overdue.empty() ? status : absl::DeadlineExceededError(absl::StrCat(status.message(), overdue));
}

void Lifeline::EndProcess(const CommCall& call, absl::Duration grace) const {
  const std::optional<BusyRank> phase = busy()->Own();
  const std::string doing = call.number != 0    ? " does not return "
                            : phase.has_value() ? absl::StrCat(" is still ", phase->WhatAndHowLong(), ", ")
                                                : " is still there, outside of collectives, ";
  std::fprintf(stderr, "error: the watchdog ends this process: %s%s%s after it had to end: %s\n",
               describe_(call).c_str(), doing.c_str(), absl::FormatDuration(grace).c_str(),
               std::string(Check().message()).c_str());
  std::fflush(stderr);
  _exit(1);
}

void Lifeline::Watch(absl::Duration grace) {
  CommCall stuck;  // the call that was under way when calls had to end
  Deadline patience = Deadline::Never();
  std::optional<Deadline> last;  // for all that this rank does, once its job has failed
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    changed_.wait_for(lock, absl::ToChronoNanoseconds(std::min(kLongestLook, grace / 2)));
    CommCall call;
    const bool is_broken = broken();
    if (is_broken && watches_all_ && !last) last = Deadline::After(grace);
    call.number = is_broken ? number_.load(std::memory_order_acquire) : 0;
    call.operation = operation_.load(std::memory_order_relaxed);
    call.peer = peer_.load(std::memory_order_relaxed);
    if (call.number == 0 || call.number != stuck.number || call.operation != stuck.operation ||
        call.peer != stuck.peer) {
      stuck = call;
      patience = call.number == 0 ? Deadline::Never() : Deadline::After(grace);
    }
    if (!patience.Passed() && !(last && last->Passed())) continue;
    lock.unlock();
    EndProcess(call, grace);
  }
}

}  // namespace distill
