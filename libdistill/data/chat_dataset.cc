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

// What a row gives: all that takes time.
struct EncodedChatRow {
  TokenSample sample;  // not yet cut
  Conversation conversation;
  AnswerNote note;
  std::set<std::string> unread;
};

// Any thread may use it.
class ChatEncoder {
 public:
  ChatEncoder(const Tokenizer& tokenizer, const ChatTemplate& chat_template, TrainOn train_on)
      : tokenizer_(tokenizer), chat_template_(chat_template), train_on_(train_on) {}

  absl::StatusOr<EncodedChatRow> Encode(const JsonValue& row) const {
    EncodedChatRow encoded;
    DISTILL_RETURN_IF_ERROR(IsPlainText(row) ? EncodeText(row, encoded) : EncodeConversation(row, encoded));
    return encoded;
  }

 private:
  // A text is tokenized as it is, without the chat template, and all of it is trained; the end-of-text token follows.
  absl::Status EncodeText(const JsonValue& row, EncodedChatRow& encoded) const {
    DISTILL_ASSIGN_OR_RETURN(const std::string text, TextOf(row, "text"));
    TokenSample& sample = encoded.sample;
    DISTILL_ASSIGN_OR_RETURN(sample.ids, tokenizer_.Encode(text));
    if (tokenizer_.eos_id()) sample.ids.push_back(*tokenizer_.eos_id());
    if (sample.ids.size() < 2) return absl::InvalidArgumentError("'text' is empty; complete or remove the row");
    sample.is_target.assign(sample.ids.size(), 1);
    AddUnread(row, "", encoded.unread);
    return absl::OkStatus();
  }

  absl::Status EncodeConversation(const JsonValue& row, EncodedChatRow& encoded) const {
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

  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_template_;
  const TrainOn train_on_;
};

class ChatLoader {
 public:
  explicit ChatLoader(const ChatDatasetOptions& options) : options_(options) {}

  // Whether another row is wanted.
  bool Add(EncodedChatRow row, const std::string& place) {
    ++rows_;
    unread_.merge(row.unread);
    Keep(std::move(row), place);
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
  // Cut at max_length, unless nothing to train on is left then.
  void Keep(EncodedChatRow row, const std::string& place) {
    const size_t max_length = static_cast<size_t>(options_.max_length);
    TokenSample& sample = row.sample;
    const bool is_cut = sample.ids.size() > max_length;
    if (is_cut) {
      sample.ids.resize(max_length);
      sample.is_target.resize(max_length);
      if (!HasTarget(sample)) return cut_before_answer_.Add(place);
    }
    cut_ += is_cut;
    notes_.Add(row.note, place);
    samples_.push_back(std::move(sample));
    if (options_.keep_conversations) conversations_.push_back(std::move(row.conversation));
  }

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
  const ChatEncoder encoder(tokenizer, chat_template, options.train_on);
  ChatLoader loader(options);
  const auto encode = [&](const JsonValue& row) -> absl::StatusOr<MadeOfRow> {
    DISTILL_ASSIGN_OR_RETURN(EncodedChatRow encoded, encoder.Encode(row));
    return std::make_shared<EncodedChatRow>(std::move(encoded));
  };
  const auto take = [&](const MadeOfRow& made, const std::string& place) -> absl::StatusOr<bool> {
    return loader.Add(std::move(*static_cast<EncodedChatRow*>(made.get())), place);
  };
  DISTILL_RETURN_IF_ERROR(ForEachEncodedRow(path, options.split, options.rows, options.num_threads, encode, take));
  return loader.Finish(path);
}

}  // namespace distill
