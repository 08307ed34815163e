// From the logits of a question's windows to its answer, as postprocess_qa_predictions of transformers' run_qa.py
// decodes it.
//
//   const WindowScores scores = BestOf(start_logits, end_logits, options.n_best_size);   // where the model runs
//   const DecodedAnswer answer = Decode(row.context, windows, options);                  // where all windows are
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libdistill/core/describe.h"

namespace distill {

struct DecodeOptions {
  bool version_2_with_negative = false;  // "" may be the answer
  double null_score_diff_threshold = 0;  // it is where its score is that much above the best other one
  int64_t n_best_size = 20;              // starts and ends of a window that are paired, and answers that are kept
  int64_t max_answer_length = 30;        // tokens
};

template <class V>
void Describe(V& v, DecodeOptions& o) {
  v.Group("Answers");
  v.Field("version_2_with_negative", o.version_2_with_negative,
          "some questions have no answer (SQuAD v2): the empty answer is one of the candidates");
  v.Field("null_score_diff_threshold", o.null_score_diff_threshold,
          "of version_2_with_negative: the empty answer is given where its score is that much above the best other");
  v.Field("n_best_size", o.n_best_size, Within(1, 1 << 20), "likeliest starts and ends that are combined to answers")
      .Alias("n_best");
  v.Field("max_answer_length", o.max_answer_length, Within(1, 1 << 20), "tokens of an answer, at most");
}

// The likeliest places of one window, best first, and the logits of its first token.
struct WindowScores {
  struct Place {
    int32_t token = 0;
    float logit = 0;
  };
  float null_start = 0, null_end = 0;
  std::vector<Place> starts = {}, ends = {};
};

// Of equal logits the later place comes first. `start` and `end`: one logit a token, without padding.
WindowScores BestOf(absl::Span<const float> start, absl::Span<const float> end, int64_t n_best_size);

// As bytes, to travel between ranks of one kind of machine. InvalidArgument: no such bytes.
std::string ToBytes(const WindowScores& scores);
[[nodiscard]] absl::StatusOr<WindowScores> WindowScoresOf(const std::string& bytes);

struct WindowToDecode {
  WindowScores scores;
  absl::Span<const int64_t> offsets;  // [T, 2]: bytes of the context that a token is of; -1 of tokens that are of none
};

struct Candidate {
  std::string text = {};
  double probability = 0;
  float start_logit = 0, end_logit = 0;
};

struct DecodedAnswer {
  std::string text = {};               // "": no answer
  std::vector<Candidate> n_best = {};  // best first
  double null_odds = 0;  // of version_2_with_negative: score of the empty answer less that of the best other
};

// `windows`: all those of one question, in order; at least one.
DecodedAnswer Decode(const std::string& context, const std::vector<WindowToDecode>& windows,
                     const DecodeOptions& options);

}  // namespace distill
