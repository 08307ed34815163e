#include "examples/llm/held_out.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "examples/llm/end_of_answer.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

absl::StatusOr<Questions> AskFor(const std::vector<Conversation>& conversations, const ChatTemplate& chat_template,
                                 const Tokenizer& tokenizer) {
  Questions questions;
  for (const Conversation& conversation : conversations) {
    if (conversation.messages.empty()) continue;  // a plain text
    const std::vector<ChatMessage>& messages = conversation.messages;
    const auto answer = std::find_if(messages.rbegin(), messages.rend(),
                                     [](const ChatMessage& message) { return message.role == "assistant"; });
    Conversation asked{{}, conversation.fields};
    asked.messages.assign(messages.begin(), answer.base() - 1);  // what stands before it
    DISTILL_ASSIGN_OR_RETURN(std::string prompt, chat_template.Render(asked, /*add_generation_prompt=*/true));
    DISTILL_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.Encode(prompt));
    DISTILL_ASSIGN_OR_RETURN(const std::vector<int32_t> answer_ids, tokenizer.Encode(answer->content));
    questions.prompts.push_back(std::move(ids));
    questions.answers.push_back(answer->content);
    const auto answer_tokens = static_cast<int64_t>(answer_ids.size());
    questions.max_new_tokens = std::max(questions.max_new_tokens, answer_tokens + 1);  // and the end of the turn
  }
  return questions;
}

}  // namespace

absl::StatusOr<HeldOut> LoadHeldOut(const std::string& dataset, const std::string& folder, const ChatTemplate& chat,
                                    const ChatDatasetOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(auto tokenizer, Tokenizer::Load(folder));
  DISTILL_ASSIGN_OR_RETURN(auto data, LoadChatDataset(dataset, tokenizer, chat, options));
  DISTILL_ASSIGN_OR_RETURN(auto questions, AskFor(data.conversations, chat, tokenizer));
  DISTILL_ASSIGN_OR_RETURN(auto ends, EndsOfAnswer(folder, tokenizer));
  if (ends.empty() && !questions.prompts.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": nothing says where an answer ends; set eos_token in tokenizer_config.json, or ",
                     "eos_token_id in generation_config.json"));
  }
  return HeldOut{chat.text(), std::move(tokenizer), std::move(data), std::move(questions), std::move(ends)};
}

}  // namespace distill
