#include "libdistill/data/chat_dataset.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/jsonl_rows.h"
#include "libdistill/data/token_dataset.h"

namespace distill {
namespace {

// The forms differ in names only.
struct Form {
  const char* list;
  const char* role;
  const char* content;
};
constexpr Form kForms[] = {
    {"messages", "role", "content"}, {"conversations", "from", "value"}, {"conversations", "role", "content"}};

// The form of a row; null where it has none.
const Form* FormOf(const JsonValue& row) {
  const Form* found = nullptr;
  for (const Form& form : kForms) {
    const JsonValue* list = row.Find(form.list);
    if (list == nullptr) continue;
    if (found == nullptr) found = &form;
    if (!list->items.empty() && list->items.front().Find(form.role) != nullptr) return &form;
  }
  return found;
}

// What data sets call them, and what templates do.
constexpr std::pair<const char*, const char*> kRoles[] = {
    {"system", "system"}, {"user", "user"},         {"human", "user"},      {"assistant", "assistant"},
    {"gpt", "assistant"}, {"chatgpt", "assistant"}, {"model", "assistant"}, {"tool", "tool"}};

constexpr char kExample[] =
    R"({"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]})";

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(std::string(what)); }

absl::StatusOr<std::string> NormalRole(const std::string& role) {
  for (const auto& [name, normal] : kRoles) {
    if (role == name) return std::string(normal);
  }
  const std::string known =
      absl::StrJoin(kRoles, ", ", [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first); });
  return Invalid(absl::StrCat("unknown role '", role, "'; name it one of ", known));
}

std::string FieldsOf(const Form& form) {
  return absl::StrCat("'", form.role, "' and '", form.content, "' in '", form.list, "'");
}

// Parts are what multimodal data has in place of a text.
absl::StatusOr<std::string> MessageText(const JsonValue& message, const char* name) {
  const JsonValue* value = message.Find(name);
  if (value == nullptr) {
    return Invalid(absl::StrCat("the field '", name, "' is missing; a message has ", FieldsOf(kForms[0]), ", ",
                                FieldsOf(kForms[1])));
  }
  switch (value->kind) {
    case JsonValue::Kind::kString:
      return value->text;
    case JsonValue::Kind::kArray:
      return Invalid(absl::StrCat("'", name, "' is a list, not a string; join the texts of its parts into one"));
    case JsonValue::Kind::kNull:
      return Invalid(absl::StrCat("'", name, "' is null, not a string; write the text, or leave the message out"));
    default:
      return Invalid(absl::StrCat("'", name, "' is not a string; write the text itself, in quotes"));
  }
}

// Chat templates render what the model calls and may call; a conversation without it would be another one.
absl::Status RefuseTools(const JsonValue& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const JsonValue* value = object.Find(name);
    if (value == nullptr || value->kind == JsonValue::Kind::kNull) continue;
    if (value->kind == JsonValue::Kind::kArray && value->items.empty()) continue;
    return Invalid(absl::StrCat("'", name, "' is not supported; leave out the conversations that call tools"));
  }
  return absl::OkStatus();
}

// As in OpenAI's files for fine-tuning: an answer of weight 0 is context alone.
absl::StatusOr<bool> HasLoss(const JsonValue& message) {
  const JsonValue* weight = message.Find("weight");
  if (weight == nullptr || weight->kind == JsonValue::Kind::kNull) return true;
  if (weight->kind == JsonValue::Kind::kNumber && (weight->number == 0 || weight->number == 1)) {
    return weight->number == 1;
  }
  return Invalid("'weight' is neither 0 nor 1; other weights are not supported");
}

absl::StatusOr<ChatMessage> ParseMessage(const JsonValue& json, const Form& form) {
  if (json.kind != JsonValue::Kind::kObject) {
    return Invalid(absl::StrCat("not a JSON object; a message is {\"", form.role, "\": \"user\", \"", form.content,
                                "\": \"...\"}"));
  }
  ChatMessage message;
  DISTILL_ASSIGN_OR_RETURN(const std::string role, MessageText(json, form.role));
  DISTILL_ASSIGN_OR_RETURN(message.role, NormalRole(role));
  DISTILL_RETURN_IF_ERROR(RefuseTools(json, {"tool_calls", "function_call"}));
  DISTILL_ASSIGN_OR_RETURN(message.has_loss, HasLoss(json));
  const JsonValue* content = json.Find(form.content);
  if (content != nullptr && content->kind == JsonValue::Kind::kNull && message.role == "assistant") return message;
  DISTILL_ASSIGN_OR_RETURN(message.content, MessageText(json, form.content));
  return message;
}

// `messages` (role, content) or `conversations` (from, value). An assistant's null is an empty text.
absl::StatusOr<std::vector<ChatMessage>> ParseChatRow(const JsonValue& row) {
  if (row.kind != JsonValue::Kind::kObject) {
    return Invalid(absl::StrCat("the row is not a JSON object; JSON Lines has one conversation a line, ", kExample));
  }
  DISTILL_RETURN_IF_ERROR(RefuseTools(row, {"tools", "functions"}));
  const Form* form = FormOf(row);
  if (form == nullptr) {
    return Invalid(absl::StrCat("the row has neither 'messages' nor 'conversations'; write it as ", kExample));
  }
  const JsonValue& list = *row.Find(form->list);
  if (list.kind != JsonValue::Kind::kArray) {
    return Invalid(
        absl::StrCat("'", form->list, "' is no list; it holds the messages of one conversation, ", kExample));
  }
  std::vector<ChatMessage> messages;
  for (const JsonValue& item : list.items) {
    absl::StatusOr<ChatMessage> message = ParseMessage(item, *form);
    if (!message.ok()) return Annotate(message.status(), absl::StrCat(form->list, "[", messages.size(), "]"));
    messages.push_back(*std::move(message));
  }
  return messages;
}

// Fields of a row and of its messages that nothing reads, by name.
void AddUnread(const JsonValue& row, std::set<std::string>& unread) {
  const Form* form = FormOf(row);
  for (const auto& [name, value] : row.members) {
    if (name != form->list && name != "tools" && name != "functions") unread.insert(absl::StrCat("'", name, "'"));
  }
  for (const JsonValue& message : row.Find(form->list)->items) {
    for (const auto& [name, value] : message.members) {
      const bool is_read = name == form->role || name == form->content || name == "weight" || name == "tool_calls" ||
                           name == "function_call";
      if (!is_read) unread.insert(absl::StrCat("'", name, "' of messages"));
    }
  }
}

// Whether the assistant says anything in it that has a loss.
bool HasAnswer(absl::Span<const ChatMessage> messages) {
  return std::any_of(messages.begin(), messages.end(), [](const ChatMessage& message) {
    return message.role == "assistant" && message.has_loss && !absl::StripAsciiWhitespace(message.content).empty();
  });
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
         absl::StrSplit(message.content, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty())) {
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
    const std::string summary =
        absl::StrCat("rows ", rows_, ", used ", samples_.size(), cut_before_answer_.Describe("cut before the answer"),
                     cut_ == 0 ? "" : absl::StrCat(", cut to max_length ", options_.max_length, " ", cut_),
                     unread_.empty() ? "" : absl::StrCat("; fields that are not read: ", absl::StrJoin(unread_, ", ")));
    if (samples_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": nothing is left to train on: ", summary,
                                                     "; raise max_length, which is ", options_.max_length));
    }
    return ChatDataset{MakeTokenDataset(std::move(samples_)), std::move(conversations_), summary};
  }

 private:
  absl::Status AddChat(const JsonValue& row, const std::string& place) {
    DISTILL_ASSIGN_OR_RETURN(std::vector<ChatMessage> messages, ParseChatRow(row));
    if (!HasAnswer(messages)) {
      return Invalid("no answer; each row needs an assistant's message that says something: complete or remove it");
    }
    DISTILL_ASSIGN_OR_RETURN(const ChatTemplate::Rendered rendered, chat_template_.RenderForTraining(messages));
    DISTILL_ASSIGN_OR_RETURN(EncodedChat encoded, EncodeChat(tokenizer_, rendered));
    TokenSample sample{std::move(encoded.ids), std::move(encoded.is_assistant)};
    if (!HasTarget(sample) || !HoldsAnAnswer(rendered, messages)) {
      return Invalid(
          "the chat template renders none of the answer; set chat_template to one that does: chatml, llama3 or a Jinja "
          "file");
    }
    AddUnread(row, unread_);
    const size_t max_length = static_cast<size_t>(options_.max_length);
    const bool is_cut = sample.ids.size() > max_length;
    if (is_cut) {
      sample.ids.resize(max_length);
      sample.is_target.resize(max_length);
      if (!HasTarget(sample)) {
        cut_before_answer_.Add(place);
        return absl::OkStatus();
      }
    }
    cut_ += is_cut;
    samples_.push_back(std::move(sample));
    conversations_.push_back(std::move(messages));
    return absl::OkStatus();
  }

  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_template_;
  const ChatDatasetOptions options_;
  std::vector<TokenSample> samples_;
  std::vector<std::vector<ChatMessage>> conversations_;
  int64_t rows_ = 0;  // without bad ones
  int64_t cut_ = 0;
  CountedRows cut_before_answer_;
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
