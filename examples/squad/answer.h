// Answers one question about one text, as the question-answering pipeline of transformers does up to version 4.52: the
// likeliest span of all windows. Later versions sum the scores of spans with the same words.
//
//   DISTILL_ASSIGN_OR_RETURN(auto answerer, SpanAnswerer::Load("runs/squad", {}, torch::kCPU));
//   DISTILL_ASSIGN_OR_RETURN(const SpanAnswer answer, answerer->Answer("Who?", context));
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <c10/core/Device.h>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libdistill/core/describe.h"
#include "libdistill/data/span_windows.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

class SpanModel;

struct AnswerOptions {
  WindowOptions windows = {.most_windows = 4096};  // 50 MB of windows of 384 tokens
  int64_t max_answer_length = 30;                  // tokens
};

template <class V>
void Describe(V& v, AnswerOptions& o) {
  v.Group("Answers");
  v.Field("max_seq_length", o.windows.max_length, Within(2, 1 << 20),
          "tokens of a window: the question and a part of the context; longer contexts have several")
      .Alias("max_seq_len", "max_length");
  v.Field("doc_stride", o.windows.stride, AtLeast(0), "tokens of the context that a window shares with the one before");
  v.Field("max_answer_length", o.max_answer_length, Within(1, 1 << 20), "tokens of an answer, at most")
      .Alias("max_answer_len");
}

struct SpanAnswer {
  double score = 0;            // the probability of its start times that of its end
  int64_t start = 0, end = 0;  // characters of the context
  std::string text;            // whole words
};

class SpanAnswerer {
 public:
  // A model folder of any store, with its tokenizer. The errors are those of LoadSpanModel and Tokenizer::Load; windows
  // are at most as long as the model's texts.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<SpanAnswerer>> Load(const std::string& folder,
                                                                          const AnswerOptions& options,
                                                                          c10::Device device);
  // The likeliest answer; blocks while the model runs. One thread at a time. InvalidArgument: a text without words, or
  // a question too long for a window. DeadlineExceeded: some windows were not read by then.
  [[nodiscard]] absl::StatusOr<SpanAnswer> Answer(const std::string& question, const std::string& context,
                                                  absl::Time deadline = absl::InfiniteFuture()) const;

 private:
  SpanAnswerer(std::shared_ptr<SpanModel> model, Tokenizer tokenizer, const AnswerOptions& options, c10::Device device)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)), options_(options), device_(device) {}

  const std::shared_ptr<SpanModel> model_;
  const Tokenizer tokenizer_;
  const AnswerOptions options_;
  const c10::Device device_;
};

}  // namespace distill
