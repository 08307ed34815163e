#include "examples/squad/score.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <string_view>

#include "absl/strings/str_join.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/unicode.h"

namespace distill {
namespace {

constexpr char32_t kCapitalSigma = 0x3A3, kFinalSigma = 0x3C2;

// Python's str.isspace.
bool IsSpace(char32_t c) { return IsWhitespace(c) || (c >= 0x1C && c <= 0x1F); }

bool IsAsciiPunctuation(char32_t c) { return c < 0x80 && IsPunctuation(c); }

// \w of Python's re.
bool IsOfWord(char32_t c) { return IsLetter(c) || IsNumber(c) || c == U'_'; }

// What stands in a word without ending it (Unicode's Case_Ignorable, but for modifier letters).
bool IsIgnoredForCase(char32_t c) {
  constexpr char32_t kOthers[] = {U'\'', U'.', U':', U'^',   U'`',   0xA8,   0xAF,
                                  0xB4,  0xB7, 0xB8, 0x2018, 0x2019, 0x2024, 0x2027};
  return IsMark(c) || (c >= 0x80 && IsControl(c)) ||
         std::find(std::begin(kOthers), std::end(kOthers), c) != std::end(kOthers);
}

bool IsCased(char32_t c) { return IsUppercaseLetter(c) || IsLowercaseLetter(c); }

std::u32string CodePointsOf(absl::string_view text) {
  std::u32string all;
  for (size_t at = 0; at < text.size();) all.push_back(NextCodePoint(text, &at));
  return all;
}

// Whether a capital sigma at `place` ends a word.
bool IsFinal(const std::u32string& text, size_t place) {
  size_t before = place, behind = place + 1;
  while (before > 0 && IsIgnoredForCase(text[before - 1])) --before;
  while (behind < text.size() && IsIgnoredForCase(text[behind])) ++behind;
  return before > 0 && IsCased(text[before - 1]) && (behind == text.size() || !IsCased(text[behind]));
}

// Python's str.lower.
std::u32string Lower(absl::string_view text) {
  const std::u32string all = CodePointsOf(text);
  std::string lower;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] == kCapitalSigma && IsFinal(all, i)) {
      AppendUtf8(kFinalSigma, &lower);
    } else {
      AppendLower(all[i], &lower);
    }
  }
  return CodePointsOf(lower);
}

bool IsArticle(std::u32string_view word) { return word == U"a" || word == U"an" || word == U"the"; }

std::vector<std::string> WordsOf(absl::string_view text) {
  std::u32string kept = Lower(text);
  std::erase_if(kept, IsAsciiPunctuation);
  for (size_t begin = 0; begin < kept.size();) {
    size_t end = begin;
    while (end < kept.size() && IsOfWord(kept[end])) ++end;
    if (IsArticle(std::u32string_view(kept).substr(begin, end - begin))) {
      kept.replace(begin, end - begin, 1, U' ');
      end = begin + 1;
    }
    begin = std::max(end, begin + 1);
  }
  std::vector<std::string> words;
  bool is_within = false;
  for (const char32_t c : kept) {
    const bool is_space = IsSpace(c);
    if (!is_space && !is_within) words.emplace_back();
    if (!is_space) AppendUtf8(c, &words.back());
    is_within = !is_space;
  }
  return words;
}

double F1OfWords(std::vector<std::string> prediction, std::vector<std::string> gold) {
  std::sort(prediction.begin(), prediction.end());
  std::sort(gold.begin(), gold.end());
  std::vector<std::string> common;
  std::set_intersection(prediction.begin(), prediction.end(), gold.begin(), gold.end(), std::back_inserter(common));
  if (common.empty()) return 0;
  const auto same = static_cast<double>(common.size());
  const double precision = same / static_cast<double>(prediction.size());
  const double recall = same / static_cast<double>(gold.size());
  return (2 * precision * recall) / (precision + recall);
}

struct Judgement {
  double exact = 0, f1 = 0;
};

Judgement Judge(const std::string& prediction, const std::vector<std::string>& golds,
                double (*f1)(const std::string&, const std::string&)) {
  Judgement best;
  for (const std::string& gold : golds) {
    best.exact = std::max(best.exact, IsExactMatch(prediction, gold) ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, f1(prediction, gold));
  }
  return best;
}

// Of version 2: answers without words are none.
Judgement JudgeV2(const JudgedAnswer& answer) {
  std::vector<std::string> golds = answer.golds;
  std::erase_if(golds, [](const std::string& gold) { return WordsOf(gold).empty(); });
  if (golds.empty()) golds.emplace_back();
  return Judge(answer.prediction, golds, F1OfV2);
}

class Sums {
 public:
  void Add(const Judgement& judgement) {
    exact_ += judgement.exact;
    f1_ += judgement.f1;
    ++count_;
  }
  void Put(const std::string& exact, const std::string& f1, const std::string& total,
           std::map<std::string, double>* scores) const {
    if (count_ == 0) return;
    (*scores)[exact] = 100.0 * exact_ / count_;
    (*scores)[f1] = 100.0 * f1_ / count_;
    if (!total.empty()) (*scores)[total] = count_;
  }

 private:
  double exact_ = 0, f1_ = 0, count_ = 0;
};

// The script's find_best_thresh: beginning with no answer to any question, one after the other is answered, those with
// the lowest no_answer_score first.
void PutBest(const std::string& name, const std::vector<JudgedAnswer>& answers, const std::vector<double>& scores,
             std::map<std::string, double>* found) {
  std::vector<size_t> order(answers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return answers[a].no_answer_score < answers[b].no_answer_score; });
  double sum = 0, threshold = 0;
  for (const JudgedAnswer& answer : answers) sum += answer.golds.empty();
  double best = sum;
  for (const size_t i : order) {
    sum += !answers[i].golds.empty() ? scores[i] : answers[i].prediction.empty() ? 0 : -1;
    if (sum <= best) continue;
    best = sum;
    threshold = answers[i].no_answer_score;
  }
  (*found)["best_" + name] = 100.0 * best / static_cast<double>(answers.size());
  (*found)["best_" + name + "_thresh"] = threshold;
}

}  // namespace

std::string NormalizeAnswer(absl::string_view text) { return absl::StrJoin(WordsOf(text), " "); }

bool IsExactMatch(const std::string& prediction, const std::string& gold) {
  return WordsOf(prediction) == WordsOf(gold);
}

double F1OfV1(const std::string& prediction, const std::string& gold) {
  return F1OfWords(WordsOf(prediction), WordsOf(gold));
}

double F1OfV2(const std::string& prediction, const std::string& gold) {
  const std::vector<std::string> of_prediction = WordsOf(prediction), of_gold = WordsOf(gold);
  if (of_prediction.empty() || of_gold.empty()) return of_prediction == of_gold ? 1 : 0;
  return F1OfWords(of_prediction, of_gold);
}

std::map<std::string, double> ScoresOfV1(const std::vector<JudgedAnswer>& answers) {
  Sums sums;
  for (const JudgedAnswer& answer : answers) sums.Add(Judge(answer.prediction, answer.golds, F1OfV1));
  std::map<std::string, double> scores;
  sums.Put("exact_match", "f1", "", &scores);
  return scores;
}

std::map<std::string, double> ScoresOfV2(const std::vector<JudgedAnswer>& answers) {
  Sums all, with_answer, without_answer;
  std::vector<double> exact, f1;
  for (const JudgedAnswer& answer : answers) {
    const Judgement judgement = JudgeV2(answer);
    all.Add(judgement);
    (answer.golds.empty() ? without_answer : with_answer).Add(judgement);
    exact.push_back(judgement.exact);
    f1.push_back(judgement.f1);
  }
  std::map<std::string, double> scores;
  if (answers.empty()) return scores;
  all.Put("exact", "f1", "total", &scores);
  with_answer.Put("HasAns_exact", "HasAns_f1", "HasAns_total", &scores);
  without_answer.Put("NoAns_exact", "NoAns_f1", "NoAns_total", &scores);
  PutBest("exact", answers, exact, &scores);
  PutBest("f1", answers, f1, &scores);
  return scores;
}

}  // namespace distill
