#include "libdistill/world/busy_ranks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/framing.h"

namespace distill {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kFields = 5;

std::string Seconds(absl::Duration duration) { return absl::FormatDuration(absl::Floor(duration, absl::Seconds(1))); }

}  // namespace

absl::Duration BusyRank::lasted() const { return absl::FromChrono(Clock::now() - since); }

std::string BusyRank::WhatAndHowLong() const { return absl::StrCat(what, " for ", Seconds(lasted())); }

std::string EncodeBusy(const std::vector<BusyRank>& ranks) {
  std::vector<std::string> fields;
  for (const BusyRank& rank : ranks) {
    const int64_t lasted = absl::ToInt64Milliseconds(rank.lasted());
    const int64_t limit = absl::ToInt64Milliseconds(rank.limit);
    fields.insert(fields.end(),
                  {rank.name, absl::StrCat(rank.phase), rank.what, absl::StrCat(lasted), absl::StrCat(limit)});
  }
  return PackStrings(fields);
}

absl::StatusOr<std::vector<BusyRank>> DecodeBusy(absl::string_view payload) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> fields, UnpackStrings(payload));
  if (fields.size() % kFields != 0) return absl::DataLossError("a busy rank without all it says");
  std::vector<BusyRank> ranks;
  for (size_t i = 0; i < fields.size(); i += kFields) {
    BusyRank& rank = ranks.emplace_back();
    int64_t lasted = 0;
    int64_t limit = 0;
    if (!absl::SimpleAtoi(fields[i + 1], &rank.phase) || !absl::SimpleAtoi(fields[i + 3], &lasted) ||
        !absl::SimpleAtoi(fields[i + 4], &limit) || lasted < 0 || limit < 0) {
      return absl::DataLossError("a busy rank without its times");
    }
    rank.name = fields[i];
    rank.what = fields[i + 2];
    rank.since = Clock::now() - std::chrono::milliseconds(lasted);
    rank.limit = absl::Milliseconds(limit);
  }
  return ranks;
}

void BusyRanks::set_limit(absl::Duration limit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  limit_ = limit;
}

int64_t BusyRanks::Begin(absl::string_view what, std::optional<absl::Duration> limit, bool at_once) {
  const std::lock_guard<std::mutex> lock(mutex_);
  phases_.push_back({"", ++last_phase_, std::string(what), Clock::now(), limit.value_or(limit_)});
  has_phases_ = true;
  if (at_once && wake_) wake_();
  return last_phase_;
}

void BusyRanks::End(int64_t phase) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(phases_, [phase](const BusyRank& one) { return one.phase == phase; });
  has_phases_ = !phases_.empty();
  if (phase == reported_ && wake_) wake_();
}

bool BusyRanks::EnterCall() {
  if (!has_phases_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  ++calls_;
  ++entered_;
  return true;
}

void BusyRanks::LeaveCall() {
  const std::lock_guard<std::mutex> lock(mutex_);
  --calls_;
  if (std::exchange(waits_, false) && wake_) wake_();
}

std::string BusyRanks::DescribeOverdue() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const BusyRank& rank : known_) {
    if (!rank.is_overdue()) continue;
    return absl::StrCat("; ", rank.name, " has been ", rank.WhatAndHowLong(), ", longer than the ",
                        absl::FormatDuration(rank.limit), " that this may take (phase_timeout_seconds)");
  }
  return "";
}

std::optional<BusyRank> BusyRanks::Own() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return phases_.empty() ? std::nullopt : std::optional(phases_.back());
}

void BusyRanks::OnChange(std::function<void()> wake) {
  const std::lock_guard<std::mutex> lock(mutex_);
  wake_ = std::move(wake);
}

std::optional<BusyRank> BusyRanks::Report(bool at_beat) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (at_beat) {
    waits_ = calls_ > 0 && entered_ == entered_at_beat_;
    entered_at_beat_ = entered_;
  }
  const bool is_busy = !phases_.empty() && !waits_;
  reported_ = is_busy ? phases_.back().phase : 0;
  return is_busy ? std::optional(phases_.back()) : std::nullopt;
}

void BusyRanks::Know(std::vector<BusyRank> ranks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  known_ = std::move(ranks);
  const bool holds = std::any_of(known_.begin(), known_.end(), [](const BusyRank& rank) { return !rank.is_overdue(); });
  holds ? pause_.On() : pause_.Off();
}

}  // namespace distill
