#include "libdistill/data/chat_dataset.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/answer_notes.h"
#include "libdistill/data/chat_row.h"
#include "libdistill/data/rows.h"
#include "libdistill/data/token_dataset.h"
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

// A first token is never predicted, so it is no target of any loss.
bool HasTarget(const TokenSample& sample) {
  return sample.is_target.size() > 1 &&
         std::any_of(sample.is_target.begin() + 1, sample.is_target.end(), [](uint8_t target) { return target != 0; });
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

class ChatLoader {
 public:
  ChatLoader(const Tokenizer& tokenizer, const ChatTemplate& chat_template, const ChatDatasetOptions& options)
      : tokenizer_(tokenizer), chat_template_(chat_template), options_(options) {}

  absl::StatusOr<bool> Add(const JsonValue& row, const std::string& place) {
    DISTILL_RETURN_IF_ERROR(AddChat(row, place));
    ++rows_;
    return options_.num_samples == 0 || static_cast<int64_t>(samples_.size()) < options_.num_samples;
  }

  absl::StatusOr<ChatDataset> Finish(const std::string& path) {
    if (rows_ == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": the data set is empty; write one conversation a line, or name another file"));
    }
    const std::string summary = absl::StrCat(
        "rows ", rows_, ", used ", samples_.size(), cut_before_answer_.Describe("cut before the answer"),
        cut_ == 0 ? "" : absl::StrCat(", cut to max_length ", options_.max_length, " ", cut_), notes_.Describe(),
        unread_.empty() ? "" : absl::StrCat("; fields that are not read: ", absl::StrJoin(unread_, ", ")));
    if (samples_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": nothing is left to train on: ", summary,
                                                     "; raise max_length, which is ", options_.max_length));
    }
    return ChatDataset{MakeTokenDataset(std::move(samples_)), std::move(conversations_), summary};
  }

 private:
  // A text is tokenized as it is, without the chat template, and all of it is trained; the end-of-text token follows.
  absl::Status AddText(const JsonValue& row, const std::string& place) {
    DISTILL_ASSIGN_OR_RETURN(const std::string text, TextOf(row, "text"));
    TokenSample sample;
    DISTILL_ASSIGN_OR_RETURN(sample.ids, tokenizer_.Encode(text));
    if (tokenizer_.eos_id()) sample.ids.push_back(*tokenizer_.eos_id());
    if (sample.ids.size() < 2) return absl::InvalidArgumentError("'text' is empty; complete or remove the row");
    sample.is_target.assign(sample.ids.size(), 1);
    AddUnread(row, "", unread_);
    Keep(std::move(sample), Conversation(), place);
    return absl::OkStatus();
  }

  absl::Status AddChat(const JsonValue& row, const std::string& place) {
    if (IsPlainText(row)) return AddText(row, place);
    DISTILL_ASSIGN_OR_RETURN(Conversation conversation, ParseChatRow(row));
    if (!HasAnswer(conversation.messages, options_.train_on)) {
      return absl::InvalidArgumentError(
          "no answer; each row needs an assistant's message that says something: complete or remove it");
    }
    DISTILL_ASSIGN_OR_RETURN(const ChatTemplate::Rendered rendered,
                             chat_template_.RenderForTraining(conversation, options_.train_on));
    DISTILL_ASSIGN_OR_RETURN(EncodedChat encoded, EncodeChat(tokenizer_, rendered));
    TokenSample sample{std::move(encoded.ids), std::move(encoded.is_assistant)};
    if (!HasTarget(sample) || !HoldsAnAnswer(rendered, conversation.messages)) {
      return absl::InvalidArgumentError(
          "the chat template renders none of the answer; set chat_template to one that does: chatml, llama3 or a Jinja "
          "file");
    }
    AddUnread(row, chat_template_.text(), unread_);
    const std::vector<ChatMessage> messages = conversation.messages;
    if (Keep(std::move(sample), std::move(conversation), place)) notes_.Add(rendered, messages, place);
    return absl::OkStatus();
  }

  // Cut at max_length; false where nothing to train on is left.
  bool Keep(TokenSample sample, Conversation conversation, const std::string& place) {
    const size_t max_length = static_cast<size_t>(options_.max_length);
    const bool is_cut = sample.ids.size() > max_length;
    if (is_cut) {
      sample.ids.resize(max_length);
      sample.is_target.resize(max_length);
      if (!HasTarget(sample)) {
        cut_before_answer_.Add(place);
        return false;
      }
    }
    cut_ += is_cut;
    samples_.push_back(std::move(sample));
    conversations_.push_back(std::move(conversation));
    return true;
  }

  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_template_;
  const ChatDatasetOptions options_;
  std::vector<TokenSample> samples_;
  std::vector<Conversation> conversations_;
  int64_t rows_ = 0;  // without bad ones
  int64_t cut_ = 0;
  CountedRows cut_before_answer_;
  AnswerNotes notes_;
  std::set<std::string> unread_;
};

}  // namespace

absl::StatusOr<ChatDataset> LoadChatDataset(const std::string& path, const Tokenizer& tokenizer,
                                            const ChatTemplate& chat_template, const ChatDatasetOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckLimits(options.max_length, /*least=*/2, options.num_samples));
  ChatLoader loader(tokenizer, chat_template, options);
  const auto add = [&](const JsonValue& row, const std::string& place) { return loader.Add(row, place); };
  DISTILL_RETURN_IF_ERROR(ForEachRow(path, options.split, options.rows, add));
  return loader.Finish(path);
}

}  // namespace distill
