// Chat templates: from messages to the text that a model is trained on, and which part of it the assistant wrote.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool"
  std::string content;
  bool has_loss = true;  // of an assistant's: false where it is context alone
};

class ChatTemplate {
 public:
  // `choice` is the option chat_template: empty or "auto" takes the tokenizer's own template (ChatML where it has none
  // but knows <|im_start|>); "chatml" and "llama3" are built in; anything else is a path to a Jinja file, or template
  // text when it holds "{%" or "{{". InvalidArgument: syntax that is not supported, with line and construct.
  [[nodiscard]] static absl::StatusOr<ChatTemplate> Create(const std::string& choice, const Tokenizer& tokenizer);

  // What it was made of, and a name for it in messages.
  const std::string& text() const;
  const std::string& name() const;

  // InvalidArgument: the template's own raise_exception, or a construct that fails on these messages.
  [[nodiscard]] absl::StatusOr<std::string> Render(absl::Span<const ChatMessage> messages,
                                                   bool add_generation_prompt) const;

  struct Rendered {
    std::string text;
    // Byte ranges [begin, end) of `text` that the assistant wrote: content and end-of-turn token, in order. Without
    // those of messages without a loss.
    std::vector<std::pair<size_t, size_t>> assistant;
  };
  // The whole conversation with the assistant's ranges. InvalidArgument besides: the ranges cannot be told apart.
  [[nodiscard]] absl::StatusOr<Rendered> RenderForTraining(absl::Span<const ChatMessage> messages) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

struct EncodedChat {
  std::vector<int32_t> ids;
  std::vector<uint8_t> is_assistant;  // 1 for tokens that lie in an assistant range, as long as ids
};
// The ids of a rendered conversation; a range border is always a token border (pieces are encoded one by one).
// Fails where Tokenizer::Encode does.
[[nodiscard]] absl::StatusOr<EncodedChat> EncodeChat(const Tokenizer& tokenizer,
                                                     const ChatTemplate::Rendered& rendered);

}  // namespace distill
