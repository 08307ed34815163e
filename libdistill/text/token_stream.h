// The text of an answer while its tokens come, one after another.
//
//   TokenStream stream(tokenizer);
//   for (int32_t id : answer) std::cout << stream.Add(id) << std::flush;
//   std::cout << stream.Finish();
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libdistill/text/tokenizer.h"

namespace distill {

// A token may be a part of a character, and how it reads may depend on the one before it. So a text is given out when
// its characters are whole, and never taken back. All of it together is what Tokenizer::Decode makes of the same ids,
// with one exception: SentencePiece's bytes that turn out to be no UTF-8 later than a character before them was given
// out.
class TokenStream {
 public:
  // Special tokens give no text, unless it is asked for.
  explicit TokenStream(Tokenizer tokenizer, bool skip_special_tokens = true)
      : tokenizer_(std::move(tokenizer)), skips_special_(skip_special_tokens) {}

  // What this token adds: whole characters, or nothing yet.
  std::string Add(int32_t id);
  // What is left when no more tokens come: U+FFFD where a character was not finished.
  std::string Finish();

 private:
  std::string GiveOut(const std::string& text);

  Tokenizer tokenizer_;
  bool skips_special_;
  std::vector<int32_t> ids_;  // those given out last, then those that are not yet
  size_t given_ids_ = 0;
  size_t given_bytes_ = 0;  // how long the text of the given ones is by itself
};

}  // namespace distill
