#include "examples/squad/decode.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

struct Scored {
  int64_t begin = 0, end = 0;  // bytes of the context
  float score = 0, start_logit = 0, end_logit = 0;

  bool is_at_zero() const { return begin == 0 && end == 0; }
};

std::vector<WindowScores::Place> Likeliest(absl::Span<const float> logits, int64_t count) {
  const auto logit_at = [&](int32_t token) {  // what is no number must not confuse the sorting
    const float logit = logits[static_cast<size_t>(token)];
    return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
  };
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto wanted = static_cast<int64_t>(std::min<size_t>(order.size(), static_cast<size_t>(count)));
  std::partial_sort(order.begin(), order.begin() + wanted, order.end(), [&](int32_t a, int32_t b) {
    const float of_a = logit_at(a), of_b = logit_at(b);
    return of_a != of_b ? of_a > of_b : a > b;
  });
  std::vector<WindowScores::Place> places;
  for (int64_t i = 0; i < wanted; ++i) places.push_back({order[i], logit_at(order[i])});
  return places;
}

// All pairs of starts and ends that are answers.
void AddPairs(const WindowToDecode& window, int64_t max_answer_length, std::vector<Scored>* found) {
  const auto is_of_context = [&](int32_t token) { return window.offsets[2 * static_cast<size_t>(token)] >= 0; };
  for (const auto& start : window.scores.starts) {
    for (const auto& end : window.scores.ends) {
      if (!is_of_context(start.token) || !is_of_context(end.token)) continue;
      if (end.token < start.token || end.token - start.token + 1 > max_answer_length) continue;
      found->push_back({.begin = window.offsets[2 * static_cast<size_t>(start.token)],
                        .end = window.offsets[2 * static_cast<size_t>(end.token) + 1],
                        .score = start.logit + end.logit,
                        .start_logit = start.logit,
                        .end_logit = end.logit});
    }
  }
}

// The empty answer, by the window that finds it least likely.
Scored NullOf(const std::vector<WindowToDecode>& windows) {
  std::optional<Scored> least;
  for (const WindowToDecode& window : windows) {
    const float score = window.scores.null_start + window.scores.null_end;
    if (least && least->score <= score) continue;
    least = {.score = score, .start_logit = window.scores.null_start, .end_logit = window.scores.null_end};
  }
  return *least;
}

// The best ones, best first; with the empty answer among them where `null` is one.
std::vector<Scored> BestOfAll(std::vector<Scored> all, const std::optional<Scored>& null, int64_t n_best_size) {
  if (null) all.push_back(*null);
  std::stable_sort(all.begin(), all.end(), [](const Scored& a, const Scored& b) { return a.score > b.score; });
  if (std::ssize(all) > n_best_size) all.resize(static_cast<size_t>(n_best_size));
  const bool has_null = std::any_of(all.begin(), all.end(), [](const Scored& one) { return one.is_at_zero(); });
  if (null && !has_null) all.push_back(*null);
  return all;
}

// Softmax of the scores.
void SetProbabilities(const std::vector<float>& scores, std::vector<Candidate>* candidates) {
  const double highest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const float score : scores) sum += std::exp(score - highest);
  for (size_t i = 0; i < scores.size(); ++i) (*candidates)[i].probability = std::exp(scores[i] - highest) / sum;
}

template <typename T>
void Put(const T& value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
bool Take(absl::string_view* bytes, T* value) {
  if (bytes->size() < sizeof(T)) return false;
  std::memcpy(value, bytes->data(), sizeof(T));
  bytes->remove_prefix(sizeof(T));
  return true;
}

bool TakePlaces(absl::string_view* bytes, std::vector<WindowScores::Place>* places) {
  uint64_t count = 0;
  if (!Take(bytes, &count) || count > bytes->size() / sizeof(WindowScores::Place)) return false;
  places->resize(count);
  for (auto& place : *places) {
    if (!Take(bytes, &place)) return false;
  }
  return true;
}

}  // namespace

WindowScores BestOf(absl::Span<const float> start, absl::Span<const float> end, int64_t n_best_size) {
  return {.null_start = start[0],
          .null_end = end[0],
          .starts = Likeliest(start, n_best_size),
          .ends = Likeliest(end, n_best_size)};
}

std::string ToBytes(const WindowScores& scores) {
  std::string bytes;
  Put(scores.null_start, &bytes);
  Put(scores.null_end, &bytes);
  for (const auto* places : {&scores.starts, &scores.ends}) {
    Put(uint64_t{places->size()}, &bytes);
    for (const auto& place : *places) Put(place, &bytes);
  }
  return bytes;
}

absl::StatusOr<WindowScores> WindowScoresOf(const std::string& bytes) {
  WindowScores scores;
  absl::string_view rest = bytes;
  if (Take(&rest, &scores.null_start) && Take(&rest, &scores.null_end) && TakePlaces(&rest, &scores.starts) &&
      TakePlaces(&rest, &scores.ends) && rest.empty()) {
    return scores;
  }
  return absl::InvalidArgumentError(absl::StrCat(bytes.size(), " bytes are no scores of a window"));
}

DecodedAnswer Decode(const std::string& context, const std::vector<WindowToDecode>& windows,
                     const DecodeOptions& options) {
  std::vector<Scored> all;
  for (const WindowToDecode& window : windows) AddPairs(window, options.max_answer_length, &all);
  std::optional<Scored> null;
  if (options.version_2_with_negative) null = NullOf(windows);
  DecodedAnswer answer;
  std::vector<float> scores;
  for (const Scored& one : BestOfAll(std::move(all), null, options.n_best_size)) {
    const auto begin = static_cast<size_t>(one.begin), end = static_cast<size_t>(std::max(one.begin, one.end));
    answer.n_best.push_back({context.substr(begin, end - begin), 0, one.start_logit, one.end_logit});
    scores.push_back(one.score);
  }
  // Without any answer but the empty one there is this, so that there is one.
  if (answer.n_best.empty() || (answer.n_best.size() == 1 && answer.n_best[0].text.empty())) {
    answer.n_best.insert(answer.n_best.begin(), Candidate{.text = "empty"});
    scores.insert(scores.begin(), 0);
  }
  SetProbabilities(scores, &answer.n_best);
  if (!options.version_2_with_negative) {
    answer.text = answer.n_best[0].text;
    return answer;
  }
  const auto best = std::find_if(answer.n_best.begin(), answer.n_best.end(),
                                 [](const Candidate& candidate) { return !candidate.text.empty(); });
  // In float32, as numpy subtracts them.
  if (best != answer.n_best.end()) answer.null_odds = null->score - best->start_logit - best->end_logit;
  if (best != answer.n_best.end() && answer.null_odds <= options.null_score_diff_threshold) answer.text = best->text;
  return answer;
}

}  // namespace distill
