// Chat templates: from messages to the text that a model is trained on, and which part of it the assistant wrote.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/core/describe.h"
#include "libdistill/text/conversation.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

// Which of the assistant's messages a conversation trains.
enum class TrainOn {
  kAll,
  kLast,  // the others are context alone
};

constexpr EnumNames<TrainOn, 2> NamesOf(TrainOn) { return {{{"all", TrainOn::kAll}, {"last", TrainOn::kLast}}}; }

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
  [[nodiscard]] absl::StatusOr<std::string> Render(const Conversation& conversation, bool add_generation_prompt) const;

  struct Rendered {
    std::string text;
    // Byte ranges [begin, end) of `text` that are trained: what the assistant wrote, and what ends its turn, in order.
    std::vector<std::pair<size_t, size_t>> assistant;
    // Answers that are not trained, since the template leaves them out or writes them otherwise than a model would:
    // most leave out the reasoning of earlier turns.
    int64_t rewritten = 0;
    int64_t without_end = 0;  // trained ones that nothing ends
    // The special token that `text` has behind a last answer that the template does not end: what ends turns within
    // its conversations. Mostly empty.
    std::string added_end = {};
  };
  // The whole conversation with the assistant's ranges (answer_spans.h, or the template's {% generation %} blocks).
  // InvalidArgument besides: a template with such blocks marks other parts than messages, and not all are trained.
  [[nodiscard]] absl::StatusOr<Rendered> RenderForTraining(const Conversation& conversation,
                                                           TrainOn train_on = TrainOn::kAll) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

struct EncodedChat {
  std::vector<int32_t> ids;
  std::vector<uint8_t> is_assistant;  // 1 for tokens that lie in an assistant range, as long as ids
};
// The ids of a rendered conversation: those of the whole text. A token that lies in a range in part belongs to it.
// Fails where Tokenizer::EncodeInput does.
[[nodiscard]] absl::StatusOr<EncodedChat> EncodeChat(const Tokenizer& tokenizer,
                                                     const ChatTemplate::Rendered& rendered);

}  // namespace distill
