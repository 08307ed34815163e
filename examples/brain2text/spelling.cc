#include "examples/brain2text/spelling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

namespace distill {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double AddLogs(double a, double b) {
  const double high = std::max(a, b), low = std::min(a, b);
  return low == kNever ? high : high + std::log1p(std::exp(low - high));
}

// Of all frames so far that spell a prefix: those that end with a blank, and those that end with its last class.
struct PrefixScore {
  double blank = kNever, last = kNever;
  double total() const { return AddLogs(blank, last); }
};
using Prefix = std::vector<int64_t>;
using Beam = std::map<Prefix, PrefixScore>;
using KeptPrefixes = std::vector<std::pair<Prefix, PrefixScore>>;

// Of so many classes but the blank, the best ones of a frame.
std::vector<int64_t> BestClasses(const float* frame, int64_t classes, int64_t count) {
  std::vector<int64_t> best(static_cast<size_t>(classes - 1));
  std::iota(best.begin(), best.end(), 1);
  if (count >= classes - 1) return best;
  const auto is_better = [frame](int64_t a, int64_t b) { return frame[a] != frame[b] ? frame[a] > frame[b] : a < b; };
  std::nth_element(best.begin(), best.begin() + count, best.end(), is_better);
  best.resize(static_cast<size_t>(count));
  return best;
}

// The classes that make other prefixes of the beam out of this one: what comes that way is added to them, however
// little.
void AddKeptChildren(const Prefix& prefix, const KeptPrefixes& beam, std::vector<int64_t>& classes) {
  for (const auto& [other, score] : beam) {
    const bool is_child = other.size() == prefix.size() + 1 && std::equal(prefix.begin(), prefix.end(), other.begin());
    if (!is_child || std::find(classes.begin(), classes.end(), other.back()) != classes.end()) continue;
    classes.push_back(other.back());
  }
}

void Extend(const Prefix& prefix, const PrefixScore& score, const float* frame, const std::vector<int64_t>& classes,
            Beam& next) {
  PrefixScore& same = next[prefix];
  same.blank = AddLogs(same.blank, score.total() + frame[0]);
  if (!prefix.empty()) same.last = AddLogs(same.last, score.last + frame[prefix.back()]);
  Prefix longer = prefix;
  longer.push_back(0);
  for (const int64_t c : classes) {
    longer.back() = c;
    // The same class again is a new one only behind a blank.
    const bool repeats = !prefix.empty() && prefix.back() == c;
    const double before = repeats ? score.blank : score.total();
    if (before == kNever) continue;
    PrefixScore& extended = next[longer];
    extended.last = AddLogs(extended.last, before + frame[c]);
  }
}

// The best ones, in order.
KeptPrefixes Prune(const Beam& beam, int64_t width) {
  KeptPrefixes kept(beam.begin(), beam.end());
  const auto is_better = [](const auto& a, const auto& b) { return a.second.total() > b.second.total(); };
  std::stable_sort(kept.begin(), kept.end(), is_better);
  if (static_cast<int64_t>(kept.size()) > width) kept.resize(static_cast<size_t>(width));
  return kept;
}

void AppendNumbers(const std::vector<int64_t>& numbers, std::string& bytes) {
  const auto count = static_cast<int64_t>(numbers.size());
  bytes.append(reinterpret_cast<const char*>(&count), sizeof(count));
  bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int64_t));
}

bool TakeNumbers(absl::string_view& bytes, std::vector<int64_t>& numbers) {
  int64_t count = 0;
  if (bytes.size() < sizeof(count)) return false;
  std::memcpy(&count, bytes.data(), sizeof(count));
  bytes.remove_prefix(sizeof(count));
  if (count < 0 || static_cast<uint64_t>(count) > bytes.size() / sizeof(int64_t)) return false;
  numbers.resize(static_cast<size_t>(count));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(int64_t));
  bytes.remove_prefix(numbers.size() * sizeof(int64_t));
  return true;
}

}  // namespace

std::vector<int64_t> SpellGreedily(const FrameScores& scores) {
  std::vector<int64_t> spelled;
  int64_t before = 0;
  for (int64_t t = 0; t < scores.frames(); ++t) {
    const float* frame = scores.values.data() + t * scores.classes;
    const int64_t best = std::max_element(frame, frame + scores.classes) - frame;
    if (best != 0 && best != before) spelled.push_back(best);
    before = best;
  }
  return spelled;
}

std::vector<int64_t> SpellByBeam(const FrameScores& scores, int64_t beam_width, double* log_probability) {
  KeptPrefixes beam = {{{}, {.blank = 0}}};
  for (int64_t t = 0; t < scores.frames(); ++t) {
    Beam next;
    const float* frame = scores.values.data() + t * scores.classes;
    // A prefix's further classes would not be kept: its own better ones, all but perhaps the one that it ends with,
    // fill the beam before them.
    const std::vector<int64_t> best = BestClasses(frame, scores.classes, beam_width + 1);
    for (const auto& [prefix, score] : beam) {
      std::vector<int64_t> classes = best;
      AddKeptChildren(prefix, beam, classes);
      Extend(prefix, score, frame, classes, next);
    }
    beam = Prune(next, beam_width);
  }
  if (log_probability != nullptr) *log_probability = beam.front().second.total();
  return beam.front().first;
}

int64_t EditDistance(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  std::vector<int64_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int64_t>(j);
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t diagonal = std::exchange(row[0], static_cast<int64_t>(i) + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t replaced = diagonal + (a[i] != b[j]);
      diagonal = std::exchange(row[j + 1], std::min({replaced, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row.back();
}

SpelledTrial InPhonemes(SpelledTrial trial, int64_t n_classes) {
  if (n_classes != kDiphoneClasses) return trial;
  for (std::vector<int64_t>* classes : {&trial.spelled, &trial.target}) {
    for (int64_t& number : *classes) number %= kPhonemeClasses;
    classes->erase(std::unique(classes->begin(), classes->end()), classes->end());
    std::erase(*classes, 0);
  }
  return trial;
}

std::string SpelledTrial::ToBytes() const {
  std::string bytes;
  AppendNumbers({day}, bytes);
  AppendNumbers(spelled, bytes);
  AppendNumbers(target, bytes);
  return bytes;
}

absl::StatusOr<SpelledTrial> SpelledTrial::FromBytes(const std::string& bytes) {
  absl::string_view rest = bytes;
  std::vector<int64_t> day;
  SpelledTrial trial;
  if (TakeNumbers(rest, day) && day.size() == 1 && TakeNumbers(rest, trial.spelled) &&
      TakeNumbers(rest, trial.target) && rest.empty()) {
    trial.day = day[0];
    return trial;
  }
  return absl::DataLossError("a trial's prediction arrived damaged");
}

double ErrorRates::Counts::rate() const {
  return classes == 0 ? 0 : static_cast<double>(edits) / static_cast<double>(classes);
}

void ErrorRates::Add(const SpelledTrial& trial) {
  const int64_t edits = EditDistance(trial.spelled, trial.target);
  for (Counts* counts : {&all, &by_day[trial.day]}) {
    counts->edits += edits;
    counts->classes += static_cast<int64_t>(trial.target.size());
  }
}

}  // namespace distill
