#include "libdistill/text/chat_template.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/home.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/jinja/template.h"
#include "libdistill/store/files.h"
#include "libdistill/text/answer_spans.h"

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

// Which of the assistant's messages are trained, one entry for each.
std::vector<bool> Trained(const Conversation& conversation, TrainOn train_on) {
  std::vector<bool> trained;
  for (const ChatMessage& message : conversation.messages) {
    if (message.role == "assistant") trained.push_back(message.has_loss);
  }
  if (train_on == TrainOn::kLast && !trained.empty()) std::fill(trained.begin(), trained.end() - 1, false);
  return trained;
}

// Which of the answers a range lies in; their number where it lies in none.
size_t OwnerOf(const std::pair<size_t, size_t>& range, const std::vector<AnswerSpan>& answers) {
  const auto overlaps = [&](const AnswerSpan& answer) {
    return !answer.is_rewritten && range.first < answer.end && answer.begin < range.second;
  };
  return std::find_if(answers.begin(), answers.end(), overlaps) - answers.begin();
}

void AddAnswer(const AnswerSpan& answer, ChatTemplate::Rendered* rendered) {
  if (answer.is_rewritten) {
    ++rendered->rewritten;
    return;
  }
  size_t end = answer.end;
  if (!answer.end_elsewhere.empty() && end == rendered->text.size()) {
    rendered->added_end = answer.end_elsewhere;
    rendered->text += answer.end_elsewhere;
    end = rendered->text.size();
  } else if (!answer.has_end) {
    ++rendered->without_end;
  }
  rendered->assistant.emplace_back(answer.begin, end);
}

}  // namespace

struct ChatTemplate::Impl {
  jinja::Template source;
  std::string text, name;
  std::vector<std::pair<std::string, jinja::Value>> tokens;  // bos_token and the like
  Tokenizer tokenizer;

  absl::StatusOr<jinja::Output> Run(const Conversation& conversation, bool add_generation_prompt) const;
  absl::StatusOr<std::vector<AnswerSpan>> Answers(const Conversation& conversation, const std::string& whole) const;
  absl::Status KeepTrained(const Conversation& conversation, const std::vector<bool>& trained,
                           Rendered* rendered) const;
};

absl::StatusOr<ChatTemplate> ChatTemplate::Create(const std::string& choice, const Tokenizer& tokenizer) {
  DISTILL_ASSIGN_OR_RETURN(const auto chosen, ChooseTemplate(choice, tokenizer));
  const auto& [text, name] = chosen;
  if (!IsValidUtf8(text)) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is not valid UTF-8; save it in that encoding"));
  }
  absl::StatusOr<jinja::Template> source = jinja::Template::Parse(text);
  if (!source.ok()) return Annotate(source.status(), name);
  auto impl = std::shared_ptr<Impl>(new Impl{*std::move(source), text, name, {}, tokenizer});
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

absl::StatusOr<jinja::Output> ChatTemplate::Impl::Run(const Conversation& conversation,
                                                      bool add_generation_prompt) const {
  absl::StatusOr<jinja::Output> output;
  auto variables = TemplateVariables(conversation, add_generation_prompt);
  if (variables.ok()) {
    variables->insert(variables->begin(), tokens.begin(), tokens.end());
    output = source.Render(*variables);
  } else {
    output = variables.status();
  }
  if (!output.ok()) {
    return absl::Status(output.status().code(), absl::StrCat(name, ": ", output.status().message(),
                                                             "; change the messages, or choose another chat_template"));
  }
  return output;
}

absl::StatusOr<std::string> ChatTemplate::Render(const Conversation& conversation, bool add_generation_prompt) const {
  DISTILL_ASSIGN_OR_RETURN(jinja::Output output, impl_->Run(conversation, add_generation_prompt));
  return std::move(output.text);
}

absl::StatusOr<std::vector<AnswerSpan>> ChatTemplate::Impl::Answers(const Conversation& conversation,
                                                                    const std::string& whole) const {
  const auto render = [&](const Conversation& other, bool add_generation_prompt) -> absl::StatusOr<std::string> {
    DISTILL_ASSIGN_OR_RETURN(jinja::Output output, Run(other, add_generation_prompt));
    return std::move(output.text);
  };
  return FindAnswers(conversation, whole, tokenizer, render);
}

// Of the ranges of {% generation %} blocks, those of messages that are trained. Mostly each message has one.
absl::Status ChatTemplate::Impl::KeepTrained(const Conversation& conversation, const std::vector<bool>& trained,
                                             Rendered* rendered) const {
  if (std::find(trained.begin(), trained.end(), false) == trained.end()) return absl::OkStatus();
  std::vector<std::pair<size_t, size_t>>& ranges = rendered->assistant;
  std::vector<size_t> owners(ranges.size());
  std::iota(owners.begin(), owners.end(), 0);
  if (ranges.size() != trained.size()) {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<AnswerSpan> answers, Answers(conversation, rendered->text));
    std::transform(ranges.begin(), ranges.end(), owners.begin(),
                   [&](const auto& range) { return OwnerOf(range, answers); });
    if (std::find(owners.begin(), owners.end(), answers.size()) != owners.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, ": not all of the answers are to be trained, and a part that the template marks lies in none of them: ",
          "choose another chat_template, or split the conversation"));
    }
  }
  std::vector<std::pair<size_t, size_t>> kept;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (trained[owners[i]]) kept.push_back(ranges[i]);
  }
  ranges = std::move(kept);
  return absl::OkStatus();
}

absl::StatusOr<ChatTemplate::Rendered> ChatTemplate::RenderForTraining(const Conversation& conversation,
                                                                       TrainOn train_on) const {
  DISTILL_ASSIGN_OR_RETURN(jinja::Output output, impl_->Run(conversation, false));
  Rendered rendered{std::move(output.text), std::move(output.generation)};
  const std::vector<bool> trained = Trained(conversation, train_on);
  if (impl_->source.has_generation()) {
    DISTILL_RETURN_IF_ERROR(impl_->KeepTrained(conversation, trained, &rendered));
  } else {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<AnswerSpan> answers, impl_->Answers(conversation, rendered.text));
    for (size_t i = 0; i < answers.size(); ++i) {
      if (trained[i]) AddAnswer(answers[i], &rendered);
    }
  }
  std::erase_if(rendered.assistant, [](const auto& range) { return range.first == range.second; });
  return rendered;
}

absl::StatusOr<EncodedChat> EncodeChat(const Tokenizer& tokenizer, const ChatTemplate::Rendered& rendered) {
  DISTILL_ASSIGN_OR_RETURN(Encoding encoding, tokenizer.EncodeInput(rendered.text, {.add_special_tokens = false}));
  EncodedChat encoded{std::move(encoding.ids), std::vector<uint8_t>(encoding.offsets.size(), 0)};
  auto range = rendered.assistant.begin();
  for (size_t i = 0; i < encoding.offsets.size(); ++i) {
    const auto [begin, end] = encoding.offsets[i];
    while (range != rendered.assistant.end() && range->second <= static_cast<size_t>(begin)) ++range;
    if (range == rendered.assistant.end()) break;
    encoded.is_assistant[i] = range->first < static_cast<size_t>(end) ? 1 : 0;
  }
  return encoded;
}

}  // namespace distill
