// Exact match and F1 as SQuAD's official scripts compute them (evaluate-v1.1.py and evaluate-v2.0.py of
// https://rajpurkar.github.io/SQuAD-explorer), the latter with what it says of questions with and without an answer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace distill {

// Lower case, without ASCII's punctuation and the words a, an, the; words apart by one space.
std::string NormalizeAnswer(absl::string_view text);

// Of one answer, beside one that is right: 0 or 1, and the harmonic mean of the shares of words that both have.
bool IsExactMatch(const std::string& prediction, const std::string& gold);
double F1OfV1(const std::string& prediction, const std::string& gold);
// Where one of them has no words it is 1 if the other has none either.
double F1OfV2(const std::string& prediction, const std::string& gold);

struct JudgedAnswer {
  std::string prediction;          // "": there is no answer
  std::vector<std::string> golds;  // any of them will do; none: the question has no answer
  double no_answer_score = 0;      // of version 2: how much more likely "no answer" is
};

// Percentages, by the scripts' names. Version 1.1: exact_match, f1; each question has golds. Version 2: exact, f1,
// total, the same beginning with HasAns_ and NoAns_ where there are such questions, and what would be best_exact and
// best_f1 if all questions with a no_answer_score above best_exact_thresh, best_f1_thresh were left without an answer.
// Without questions: none.
std::map<std::string, double> ScoresOfV1(const std::vector<JudgedAnswer>& answers);
std::map<std::string, double> ScoresOfV2(const std::vector<JudgedAnswer>& answers);

}  // namespace distill
