#include "examples/llm/answer.h"

#include "examples/llm/llm_task.h"
#include "libdistill/distill.h"

namespace distill {
namespace {

// An answer ends at the tokenizer's end of text, and at the ends of turn of ChatML and Llama 3.
std::vector<int32_t> StopIds(const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  if (tokenizer.eos_id()) ids.push_back(*tokenizer.eos_id());
  for (const char* token : {"<|im_end|>", "<|eot_id|>"}) {
    if (const auto id = tokenizer.TokenToId(token)) ids.push_back(*id);
  }
  return ids;
}

}  // namespace

absl::StatusOr<std::string> Answer(const CommandLine& command, c10::Device device) {
  const ProgramFlags& flags = command.flags;
  DISTILL_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(flags.generate));
  DISTILL_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Create(command.config.chat_template, tokenizer));
  const LoadOptions load = {.dtype = WorkingType(command.config), .device = device};
  DISTILL_ASSIGN_OR_RETURN(const auto model, LoadDecoder(flags.generate, load));
  const ChatMessage question{"user", flags.prompt};
  DISTILL_ASSIGN_OR_RETURN(const std::string text, chat.Render({&question, 1}, /*add_generation_prompt=*/true));

  GenerateOptions options;
  options.max_new_tokens = flags.max_new_tokens;
  options.temperature = flags.sampling_temperature;
  options.top_k = flags.top_k;
  options.top_p = flags.top_p;
  options.seed = command.config.seed;
  DISTILL_ASSIGN_OR_RETURN(options.stop_ids, ReadStopIds(flags.generate));
  for (const int32_t id : StopIds(tokenizer)) options.stop_ids.push_back(id);
  options.vocabulary = std::min(tokenizer.vocab_size(), model->head_weight().size(0));
  const std::vector<std::vector<int32_t>> answers = Generate(*model, {tokenizer.Encode(text)}, options);
  return tokenizer.Decode(answers.front(), /*skip_special_tokens=*/true);
}

}  // namespace distill
