#include "libdistill/world/call_watch.h"

#include <algorithm>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/different_calls.h"
#include "libdistill/world/framing.h"

namespace distill {
namespace {

// For how many beats rank 0 waits to hear from all when a call is late, and whoever asks it for what it found.
constexpr double kBeatsForLate = 1.5;
constexpr double kBeatsForAnswer = 3;

// The first few.
std::string List(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  const size_t listed = std::min(names.size(), kMost);
  const std::string text = absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(listed), ", ");
  return listed == names.size() ? text : absl::StrCat(text, " and ", names.size() - listed, " more");
}

}  // namespace

std::string EncodeCalls(const std::vector<CallView>& calls) {
  std::vector<std::string> fields;
  for (const CallView& call : calls) {
    fields.push_back(absl::StrCat(call.number));
    fields.push_back(call.text);
  }
  return fields.empty() ? "" : PackStrings(fields);
}

absl::StatusOr<std::vector<CallView>> DecodeCalls(absl::string_view payload) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> fields, UnpackStrings(payload));
  if (fields.size() % 2 != 0) return absl::DataLossError("a call without its text");
  std::vector<CallView> calls;
  for (size_t i = 0; i < fields.size(); i += 2) {
    CallView& call = calls.emplace_back();
    if (!absl::SimpleAtoi(fields[i], &call.number)) return absl::DataLossError("a call without its number");
    call.text = fields[i + 1];
  }
  return calls;
}

absl::Duration CallWatch::AnswersWithin() const { return kBeatsForAnswer * clock_.Interval(); }

std::string CallWatch::own_name() const { return absl::StrCat("rank ", world_.rank, " on ", world_.host); }

absl::Status CallWatch::Compare(const std::vector<CallView>& mine) const {
  std::map<int64_t, std::pair<std::string, std::string>> first;  // by the call's number: who makes it, and its text
  const auto compare = [&first](const std::string& name, const std::vector<CallView>& calls) {
    for (const CallView& call : calls) {
      const auto& [other, text] = first.try_emplace(call.number, name, call.text).first->second;
      if (text == call.text) continue;
      return DifferentCalls(absl::StrCat("in call number ", call.number, " ", other, " calls ", text),
                            absl::StrCat(name, " calls ", call.text));
    }
    return absl::OkStatus();
  };
  absl::Status found = compare(own_name(), mine);
  for (const StarPeer& peer : peers_) found.Update(compare(peer.name, peer.calls));
  return found;
}

std::string CallWatch::LateReport(int64_t call, absl::Duration allowed) {
  return PackStrings({absl::StrCat(call), absl::FormatDuration(allowed)});
}

void CallWatch::TakeLate(const std::string& report) {
  const absl::StatusOr<std::vector<std::string>> fields = UnpackStrings(report);
  LateCall late;
  if (late_ || !fields.ok() || fields->size() != 2 || !absl::SimpleAtoi((*fields)[0], &late.number)) return;
  late.allowed = (*fields)[1];
  late.patience = Deadline::After(kBeatsForLate * clock_.Interval());
  for (StarPeer& peer : peers_) peer.heard_since_late = false;
  late_ = std::move(late);
}

// Once every rank has beaten again: who is furthest behind keeps all others waiting. Ranks that are in the call, or
// beyond it, may wait for one another in any order. A rank that does not beat is named if nobody else can be.
absl::Status CallWatch::JudgeLate() {
  const auto heard = [](const StarPeer& peer) { return peer.left || peer.heard_since_late; };
  if (!late_ || (!std::all_of(peers_.begin(), peers_.end(), heard) && !late_->patience.Passed())) {
    return absl::OkStatus();
  }
  const LateCall late = *std::exchange(late_, std::nullopt);
  int64_t furthest = late.number - 1;
  std::vector<std::string> behind;
  std::vector<std::string> silent;
  const auto consider = [&](const std::string& name, const std::vector<CallView>& calls) {
    const int64_t last = calls.empty() ? 0 : calls.back().number;
    if (last > furthest) return;
    if (last < furthest) behind.clear();
    furthest = last;
    behind.push_back(name);
  };
  consider(own_name(), LastCalls());
  for (const StarPeer& peer : peers_) {
    if (!heard(peer)) silent.push_back(peer.name);
    if (!peer.left && heard(peer)) consider(peer.name, peer.calls);
  }
  if (behind.empty() && silent.empty()) return absl::OkStatus();
  const std::string what = behind.empty() ? absl::StrCat(List(silent), ", which says nothing,")
                                          : absl::StrCat(List(behind), " to make call number ", late.number);
  return absl::DeadlineExceededError(absl::StrCat("waiting for ", what, " took longer than ", late.allowed));
}

int CallWatch::PollMilliseconds() const {
  const int beat = clock_.PollMilliseconds();
  return late_ && beat >= 0 ? std::min(beat, late_->patience.PollMilliseconds()) : beat;
}

}  // namespace distill
