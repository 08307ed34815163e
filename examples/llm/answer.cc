#include "examples/llm/answer.h"

#include "examples/llm/end_of_answer.h"
#include "examples/llm/llm_task.h"
#include "libdistill/distill.h"
#include "libdistill/store/hub_path.h"

namespace distill {
absl::StatusOr<std::string> Answer(const LlmCommand& command, c10::Device device) {
  const LlmFlags& flags = command.flags;
  const absl::StatusOr<std::string> local =
      LocalPath(flags.generate, {.kind = HubKind::kModel, .revision = command.options.student_revision});
  if (!local.ok()) return Annotate(local.status(), "generate");
  const std::string& folder = *local;
  DISTILL_RETURN_IF_ERROR(Annotate(CheckModelFolder(folder), "generate"));
  DISTILL_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(folder));
  DISTILL_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Create(command.options.chat_template, tokenizer));
  const LoadOptions load = {.dtype = WorkingType(command.options.trainer, device), .device = device};
  DISTILL_ASSIGN_OR_RETURN(const auto model, LoadDecoder(folder, load));
  const Conversation question{{{"user", flags.prompt}}};
  DISTILL_ASSIGN_OR_RETURN(const std::string text, chat.Render(question, /*add_generation_prompt=*/true));

  GenerateOptions options;
  options.max_new_tokens = flags.max_new_tokens;
  options.temperature = flags.sampling_temperature;
  options.top_k = flags.top_k;
  options.top_p = flags.top_p;
  options.seed = command.options.trainer.seed;
  DISTILL_ASSIGN_OR_RETURN(options.stop_ids, EndsOfAnswer(folder, tokenizer));
  options.vocabulary = std::min(tokenizer.vocab_size(), model->head_weight().size(0));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.Encode(text));
  const std::vector<std::vector<int32_t>> answers = Generate(*model, {ids}, options);
  return tokenizer.Decode(answers.front(), /*skip_special_tokens=*/true);
}

}  // namespace distill
