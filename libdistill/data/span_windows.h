// A question and its context as a model's inputs: as many windows as the context needs, cut as transformers' tokenizers
// cut it with truncation="only_second", stride and return_overflowing_tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/text/encoding.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

struct WindowOptions {
  int64_t max_length = 384;  // tokens of a window: question, special tokens, a part of the context
  int64_t stride = 128;      // tokens of the context that a window shares with the one before it
  // More are refused before they are made, for who takes texts of strangers: a long question makes many short steps
  // through a context. 0: as many as there are.
  int64_t most_windows = 0;
};

// In order, without parts of their own. White space before the question is left out. Tokens of the context are those of
// text 1; their offsets are bytes of it. InvalidArgument: a context without tokens; a question that leaves the context
// no more than `stride` tokens of a window; more windows than most_windows; what the tokenizer refuses.
[[nodiscard]] absl::StatusOr<std::vector<Encoding>> WindowsOf(const Tokenizer& tokenizer, const std::string& question,
                                                              const std::string& context, const WindowOptions& options);

// The place of the token that stands for "no answer": [CLS], else BOS, else the first one.
int64_t PlaceOfNoAnswer(const Tokenizer& tokenizer, const Encoding& window);

struct TokenSpan {
  int64_t start = 0, end = 0;  // places of the first and the last token
};

// Where bytes [begin, end) of the context are in a window, as run_qa.py of transformers finds them: the last token that
// begins at `begin` or before it, and the first one that ends at `end` or behind it. `no_answer` twice where the window
// does not hold them all.
TokenSpan SpanOfBytes(const Encoding& window, int64_t begin, int64_t end, int64_t no_answer);

}  // namespace distill
