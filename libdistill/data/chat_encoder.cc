#include "libdistill/data/chat_encoder.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/chat_row.h"
#include "libdistill/data/rows.h"
#include "libdistill/text/marked_message.h"

namespace distill {
namespace {

// Whether an assistant's message says anything, or calls a tool.
bool SaysAnything(const ChatMessage& message) {
  return !absl::StripAsciiWhitespace(message.content).empty() || CallsTools(message);
}

// Whether the assistant says anything that is to be trained.
bool HasAnswer(const std::vector<ChatMessage>& messages, TrainOn train_on) {
  const auto is_answer = [](const ChatMessage& message) { return message.role == "assistant"; };
  for (auto message = messages.rbegin(); message != messages.rend(); ++message) {
    if (!is_answer(*message)) continue;
    if (message->has_loss && SaysAnything(*message)) return true;
    if (train_on == TrainOn::kLast) return false;
  }
  return false;
}

// Whether a word of what the assistant says is among what is trained: a template may trim or drop some of it, but one
// that renders roles alone trains nothing.
bool HoldsAnAnswer(const ChatTemplate::Rendered& rendered, const std::vector<ChatMessage>& messages) {
  bool says_anything = false;
  for (const ChatMessage& message : messages) {
    if (message.role != "assistant" || !message.has_loss) continue;
    for (const absl::string_view word :
         absl::StrSplit(message.content, absl::ByAnyChar(" \t\r\n<>"), absl::SkipEmpty())) {
      says_anything = true;
      for (const auto& [begin, end] : rendered.assistant) {
        if (absl::StrContains(absl::string_view(rendered.text).substr(begin, end - begin), word)) return true;
      }
    }
  }
  return !says_anything;
}

}  // namespace

absl::StatusOr<EncodedChatRow> ChatEncoder::Encode(const JsonValue& row) const {
  EncodedChatRow encoded;
  DISTILL_RETURN_IF_ERROR(IsPlainText(row) ? EncodeText(row, encoded) : EncodeConversation(row, encoded));
  return encoded;
}

// A text is tokenized as it is, without the chat template, and all of it is trained; the end-of-text token follows.
absl::Status ChatEncoder::EncodeText(const JsonValue& row, EncodedChatRow& encoded) const {
  DISTILL_ASSIGN_OR_RETURN(const std::string text, TextOf(row, "text"));
  TokenSample& sample = encoded.sample;
  DISTILL_ASSIGN_OR_RETURN(sample.ids, tokenizer_.Encode(text));
  if (tokenizer_.eos_id()) sample.ids.push_back(*tokenizer_.eos_id());
  if (sample.ids.size() < 2) return absl::InvalidArgumentError("'text' is empty; complete or remove the row");
  sample.is_target.assign(sample.ids.size(), 1);
  AddUnread(row, "", encoded.unread);
  return absl::OkStatus();
}

absl::Status ChatEncoder::EncodeConversation(const JsonValue& row, EncodedChatRow& encoded) const {
  DISTILL_ASSIGN_OR_RETURN(encoded.conversation, ParseChatRow(row));
  const std::vector<ChatMessage>& messages = encoded.conversation.messages;
  if (!HasAnswer(messages, train_on_)) {
    return absl::InvalidArgumentError(
        "no answer; each row needs an assistant's message that says something: complete or remove it");
  }
  DISTILL_ASSIGN_OR_RETURN(const ChatTemplate::Rendered rendered,
                           chat_template_.RenderForTraining(encoded.conversation, train_on_));
  DISTILL_ASSIGN_OR_RETURN(EncodedChat tokens, EncodeChat(tokenizer_, rendered));
  encoded.sample = {std::move(tokens.ids), std::move(tokens.is_assistant)};
  if (!HasTarget(encoded.sample) || !HoldsAnAnswer(rendered, messages)) {
    return absl::InvalidArgumentError(
        "the chat template renders none of the answer; set chat_template to one that does: chatml, llama3 or a Jinja "
        "file");
  }
  AddUnread(row, chat_template_.text(), encoded.unread);
  encoded.note = NoteOf(rendered, messages);
  return absl::OkStatus();
}

}  // namespace distill
