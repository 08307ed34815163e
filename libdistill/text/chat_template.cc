#include "libdistill/text/chat_template.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/home.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/template.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

// Qwen2's turns, without a system message that nobody asked for.
constexpr char kChatMl[] =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}"
    "{{ '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

constexpr char kLlama3[] =
    "{{ '<|begin_of_text|>' }}"
    "{% for message in messages %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] | trim + '<|eot_id|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] | trim + '<|eot_id|>' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}";

bool IsTemplateText(const std::string& text) { return absl::StrContains(text, "{%") || absl::StrContains(text, "{{"); }

// The template's text, and a name for it in messages.
absl::StatusOr<std::pair<std::string, std::string>> ChooseTemplate(const std::string& choice,
                                                                   const Tokenizer& tokenizer) {
  using Named = std::pair<std::string, std::string>;
  if (choice == "chatml") return Named(kChatMl, "the ChatML template");
  if (choice == "llama3") return Named(kLlama3, "the Llama 3 template");
  if (choice.empty() || choice == "auto") {
    if (!tokenizer.chat_template().empty()) return Named(tokenizer.chat_template(), "the tokenizer's chat template");
    if (tokenizer.TokenToId("<|im_start|>")) {
      return Named(kChatMl, "the ChatML template (the tokenizer has none, but ChatML's tokens)");
    }
    return absl::InvalidArgumentError(
        "the tokenizer has no chat template: set chat_template to chatml, llama3 or a Jinja file");
  }
  if (IsTemplateText(choice)) return Named(choice, "the text of chat_template");
  absl::StatusOr<std::string> text = ReadFile(ExpandHome(choice));
  if (!text.ok()) return Annotate(text.status(), "chat_template is neither auto, chatml nor llama3, and as a file");
  return Named(*std::move(text), choice);
}

// Of one range for each assistant's message; empty ranges go, too.
absl::Status KeepThoseWithLoss(absl::Span<const ChatMessage> messages, std::vector<std::pair<size_t, size_t>>& ranges) {
  std::vector<bool> has_loss;
  for (const ChatMessage& message : messages) {
    if (message.role == "assistant") has_loss.push_back(message.has_loss);
  }
  const bool all = std::find(has_loss.begin(), has_loss.end(), false) == has_loss.end();
  if (!all && has_loss.size() != ranges.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message has weight 0, but the template marks ", ranges.size(), " parts of ", has_loss.size(),
                     " assistant's messages: choose another chat_template, or split the conversation"));
  }
  std::vector<std::pair<size_t, size_t>> kept;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].second > ranges[i].first && (all || has_loss[i])) kept.push_back(ranges[i]);
  }
  ranges = std::move(kept);
  return absl::OkStatus();
}

}  // namespace

struct ChatTemplate::Impl {
  jinja::Template source;
  std::string text, name;
  std::vector<std::pair<std::string, jinja::Value>> tokens;  // bos_token and the like

  absl::StatusOr<jinja::Output> Run(absl::Span<const ChatMessage> messages, bool add_generation_prompt) const;
  absl::StatusOr<Rendered> RunByPrefixes(absl::Span<const ChatMessage> messages) const;
  absl::StatusOr<std::string> Before(absl::Span<const ChatMessage> messages) const;
};

absl::StatusOr<ChatTemplate> ChatTemplate::Create(const std::string& choice, const Tokenizer& tokenizer) {
  DISTILL_ASSIGN_OR_RETURN(const auto chosen, ChooseTemplate(choice, tokenizer));
  const auto& [text, name] = chosen;
  if (!IsValidUtf8(text)) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is not valid UTF-8; save it in that encoding"));
  }
  absl::StatusOr<jinja::Template> source = jinja::Template::Parse(text);
  if (!source.ok()) return Annotate(source.status(), name);
  auto impl = std::shared_ptr<Impl>(new Impl{*std::move(source), text, name, {}});
  for (const auto& [key, token] : {std::pair<const char*, const std::string&>{"bos_token", tokenizer.bos_token()},
                                   {"eos_token", tokenizer.eos_token()},
                                   {"pad_token", tokenizer.pad_token()},
                                   {"unk_token", tokenizer.unk_token()}}) {
    if (!token.empty()) impl->tokens.emplace_back(key, jinja::Value(token));
  }
  return ChatTemplate(std::move(impl));
}

const std::string& ChatTemplate::text() const { return impl_->text; }
const std::string& ChatTemplate::name() const { return impl_->name; }

absl::StatusOr<jinja::Output> ChatTemplate::Impl::Run(absl::Span<const ChatMessage> messages,
                                                      bool add_generation_prompt) const {
  std::vector<jinja::Value> list;
  for (const ChatMessage& message : messages) {
    DISTILL_ASSIGN_OR_RETURN(jinja::Value entry,
                             jinja::MakeDict({{"role", message.role}, {"content", message.content}}));
    list.push_back(std::move(entry));
  }
  std::vector<std::pair<std::string, jinja::Value>> variables = tokens;
  DISTILL_ASSIGN_OR_RETURN(jinja::Value all, jinja::MakeList(std::move(list)));
  variables.emplace_back("messages", std::move(all));
  variables.emplace_back("add_generation_prompt", jinja::Value(add_generation_prompt));
  variables.emplace_back("tools", jinja::Value::MakeNone());
  variables.emplace_back("documents", jinja::Value::MakeNone());
  absl::StatusOr<jinja::Output> output = source.Render(variables);
  if (!output.ok()) {
    return absl::Status(output.status().code(), absl::StrCat(name, ": ", output.status().message(),
                                                             "; change the messages, or choose another chat_template"));
  }
  return output;
}

// What stands before the content of the last message, an assistant's.
absl::StatusOr<std::string> ChatTemplate::Impl::Before(absl::Span<const ChatMessage> messages) const {
  const size_t before = messages.size() - 1;
  if (before > 0) {
    DISTILL_ASSIGN_OR_RETURN(jinja::Output output, Run(messages.subspan(0, before), true));
    return std::move(output.text);
  }
  // Most templates look at the first message, and fail where there is none.
  constexpr char kMark[] = "\xEE\x80\x80the answer\xEE\x80\x80";  // U+E000 is in no text
  const ChatMessage marked{"assistant", kMark};
  DISTILL_ASSIGN_OR_RETURN(jinja::Output output, Run({&marked, 1}, false));
  const size_t at = output.text.find(kMark);
  return at == std::string::npos ? output.text : output.text.substr(0, at);
}

// Without {% generation %}, what the assistant wrote is what the text up to its message does not hold yet.
absl::StatusOr<ChatTemplate::Rendered> ChatTemplate::Impl::RunByPrefixes(absl::Span<const ChatMessage> messages) const {
  DISTILL_ASSIGN_OR_RETURN(const jinja::Output whole, Run(messages, false));
  Rendered rendered{whole.text, {}};
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != "assistant") continue;
    DISTILL_ASSIGN_OR_RETURN(const std::string before, Before(messages.subspan(0, i + 1)));
    DISTILL_ASSIGN_OR_RETURN(const jinja::Output after, Run(messages.subspan(0, i + 1), false));
    if (!absl::StartsWith(whole.text, after.text) || !absl::StartsWith(after.text, before)) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, ": message ", i + 1,
          " renders differently at the end of a conversation and within it, so the "
          "assistant's part cannot be told; mark it in the template with {% generation %} ... {% endgeneration %}"));
    }
    const size_t end = absl::string_view(after.text).find_last_not_of(" \t\r\n") + 1;
    rendered.assistant.emplace_back(before.size(), std::max(before.size(), end));
  }
  return rendered;
}

absl::StatusOr<std::string> ChatTemplate::Render(absl::Span<const ChatMessage> messages,
                                                 bool add_generation_prompt) const {
  DISTILL_ASSIGN_OR_RETURN(jinja::Output output, impl_->Run(messages, add_generation_prompt));
  return std::move(output.text);
}

absl::StatusOr<ChatTemplate::Rendered> ChatTemplate::RenderForTraining(absl::Span<const ChatMessage> messages) const {
  Rendered rendered;
  if (impl_->source.has_generation()) {
    DISTILL_ASSIGN_OR_RETURN(jinja::Output output, impl_->Run(messages, false));
    rendered = {std::move(output.text), std::move(output.generation)};
  } else {
    DISTILL_ASSIGN_OR_RETURN(rendered, impl_->RunByPrefixes(messages));
  }
  DISTILL_RETURN_IF_ERROR(Annotate(KeepThoseWithLoss(messages, rendered.assistant), impl_->name));
  return rendered;
}

absl::StatusOr<EncodedChat> EncodeChat(const Tokenizer& tokenizer, const ChatTemplate::Rendered& rendered) {
  EncodedChat encoded;
  const absl::string_view text = rendered.text;
  const auto append = [&](size_t begin, size_t end, bool is_assistant) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.Encode(text.substr(begin, end - begin)));
    encoded.ids.insert(encoded.ids.end(), ids.begin(), ids.end());
    encoded.is_assistant.resize(encoded.ids.size(), is_assistant ? 1 : 0);
    return absl::OkStatus();
  };
  size_t done = 0;
  for (const auto& [begin, end] : rendered.assistant) {
    DISTILL_RETURN_IF_ERROR(append(done, begin, false));
    DISTILL_RETURN_IF_ERROR(append(begin, end, true));
    done = end;
  }
  DISTILL_RETURN_IF_ERROR(append(done, text.size(), false));
  return encoded;
}

}  // namespace distill
