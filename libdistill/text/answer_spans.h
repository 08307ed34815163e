// Which part of a rendered conversation the assistant wrote, of any chat template.
//
// Few templates mark it ({% generation %}). Of the others it is found by rendering again with a mark in place of one
// answer:
//
//   whole    <|user|>Hi<|end|><|assistant|>Hello<|end|><|user|>Bye<|end|><|assistant|>Ciao<|end|>
//   marked   <|user|>Hi<|end|><|assistant|>[mark]<|end|><|user|>Bye<|end|><|assistant|>Ciao<|end|>
//
// What both have in common before and after the mark is not the answer. To the left, the span grows to where a model
// begins to write, which is where the generation prompt ends: what a template puts before the content (an empty
// reasoning block) is written by the model, too. To the right, it grows by what ends a turn: what follows the content
// in the middle of a conversation and at its end alike (<|end|>), or the special token that follows at once.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "libdistill/text/conversation.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

using RenderConversation =
    absl::FunctionRef<absl::StatusOr<std::string>(const Conversation& conversation, bool add_generation_prompt)>;

struct AnswerSpan {
  size_t message = 0;  // which one
  size_t begin = 0;    // bytes of the whole text
  size_t end = 0;
  // The template leaves the answer out, or writes it otherwise than at the end of a conversation (without its
  // reasoning): no model would write it so.
  bool is_rewritten = false;
  bool has_end = false;  // something ends the turn
  // Of a last message that nothing ends: the special token that begins the next turn, and so ends this one, elsewhere
  // (GLM-4's <|user|>).
  std::string end_elsewhere = {};
};

// Of each of the assistant's messages, in order. `whole` is the conversation's text. InvalidArgument: what `render`
// says, where it refuses the conversation up to a message.
[[nodiscard]] absl::StatusOr<std::vector<AnswerSpan>> FindAnswers(const Conversation& conversation,
                                                                  const std::string& whole, const Tokenizer& tokenizer,
                                                                  RenderConversation render);

}  // namespace distill
