#include "examples/llm/answer.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "examples/data/json_text.h"
#include "examples/llm/end_of_answer.h"
#include "examples/llm/llm_task.h"
#include "examples/llm/questions.h"
#include "libdistill/distill.h"
#include "libdistill/nn/generation_config.h"
#include "libdistill/nn/gguf_config.h"
#include "libdistill/store/file_writer.h"
#include "libdistill/store/hub_path.h"
#include "libdistill/text/stop_strings.h"
#include "libdistill/text/token_stream.h"
#include "libdistill/world/available_memory.h"

namespace distill {
namespace {

constexpr size_t kTogether = 1024;  // questions whose answers are written when all of them are there

struct TextAnswer {
  TokenStream stream;
  StopStrings stops;
  std::string text = {};
  int64_t tokens = 0;
  bool has_ended = false;  // with a stop id or a stop string, not since it was as long as it may be
};

// Who answers, and how.
struct Answerer {
  std::shared_ptr<Decoder> model;
  Tokenizer tokenizer;
  ChatTemplate chat;
  GenerateOptions options;
  std::vector<std::string> stop_strings;
};

// What generation_config.json says, and what flags say instead.
absl::StatusOr<SamplingOptions> SamplingFor(const LlmFlags& flags, const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const GenerationConfig config, ReadGenerationConfig(folder));
  const bool samples = flags.do_sample.value_or(flags.sampling_temperature.value_or(config.does_sample ? 1 : 0) > 0);
  const bool is_of_folder = samples && !flags.sampling_temperature && !flags.do_sample;
  SamplingOptions options = config.sampling;
  if (!samples) options = {.repetition_penalty = options.repetition_penalty};
  options.temperature = samples ? flags.sampling_temperature.value_or(options.temperature) : 0;
  options.top_k = flags.top_k.value_or(options.top_k);
  options.top_p = flags.top_p.value_or(options.top_p);
  options.min_p = flags.min_p.value_or(options.min_p);
  options.repetition_penalty = flags.repetition_penalty.value_or(options.repetition_penalty);
  if (is_of_folder) {
    LogInfo(absl::StrCat("drawing tokens as ", folder, "/generation_config.json says: temperature ",
                         options.temperature, ", top_k ", options.top_k, ", top_p ", options.top_p,
                         "; for the likeliest ones: --do_sample false"));
  }
  const bool narrows = flags.top_k.value_or(0) > 0 || flags.top_p.value_or(1) < 1 || flags.min_p.value_or(0) > 0;
  if (options.temperature == 0 && narrows) {
    return absl::InvalidArgumentError(
        "--top_k, --top_p and --min_p say which tokens are drawn, and none are: give --sampling_temperature, too");
  }
  return options;
}

absl::StatusOr<Answerer> LoadAnswerer(const LlmCommand& command, c10::Device device) {
  const LlmFlags& flags = command.flags;
  const absl::StatusOr<std::string> local =
      LocalPath(flags.generate, {.kind = HubKind::kModel, .revision = command.options.student_revision});
  if (!local.ok()) return Annotate(local.status(), "generate");
  const std::string& folder = *local;
  DISTILL_RETURN_IF_ERROR(Annotate(CheckModelFolder(folder), "generate"));
  DISTILL_RETURN_IF_ERROR(Annotate(CheckGgufTokenizer(folder), "generate"));
  GenerateOptions options;
  options.max_new_tokens = flags.max_new_tokens;
  options.seed = command.options.trainer.seed;
  DISTILL_ASSIGN_OR_RETURN(options.sampling, SamplingFor(flags, folder));
  DISTILL_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Load(folder));
  DISTILL_ASSIGN_OR_RETURN(ChatTemplate chat, ChatTemplate::Create(command.options.chat_template, tokenizer));
  const LoadOptions load = {
      .dtype = WorkingType(command.options.trainer, device), .device = device, .dequantise = true};
  DISTILL_ASSIGN_OR_RETURN(auto model, LoadDecoder(folder, load));
  DISTILL_ASSIGN_OR_RETURN(options.stop_ids, EndsOfAnswer(folder, tokenizer));
  options.vocabulary = std::min(tokenizer.vocab_size(), model->head_weight().size(0));
  // The other half is for keys, values and passes.
  if (device.is_cpu()) options.copied_bytes = ReadAvailableMemory("").bytes / 2;
  // A special token gives no text, so that it is found by its id alone.
  std::vector<std::string> strings;
  for (const std::string& stop : flags.stop) {
    const auto id = tokenizer.TokenToId(stop);
    if (id.has_value() && tokenizer.IsSpecial(*id)) {
      options.stop_ids.push_back(*id);
    } else {
      strings.push_back(stop);
    }
  }
  return Answerer{std::move(model), std::move(tokenizer), std::move(chat), std::move(options), std::move(strings)};
}

using OnText = std::function<void(const std::string& text)>;

// `first`: the number of the first of them among all. `on_text` is told of whole characters when they come.
absl::StatusOr<std::vector<TextAnswer>> AnswerAll(const Answerer& by, absl::Span<const Conversation> questions,
                                                  size_t first, const OnText& on_text) {
  std::vector<std::vector<int32_t>> prompts;
  for (const Conversation& question : questions) {
    DISTILL_ASSIGN_OR_RETURN(const std::string text, by.chat.Render(question, /*add_generation_prompt=*/true));
    DISTILL_ASSIGN_OR_RETURN(prompts.emplace_back(), by.tokenizer.Encode(text));
  }
  std::vector<TextAnswer> answers(questions.size(), {TokenStream(by.tokenizer), StopStrings(by.stop_strings)});
  const auto add = [&](TextAnswer& answer, const std::string& text) {
    answer.text += text;
    if (!text.empty()) on_text(text);
  };
  const auto take = [&](absl::Span<NewToken> tokens) {
    for (NewToken& token : tokens) {
      TextAnswer& answer = answers[token.prompt];
      ++answer.tokens;
      add(answer, answer.stops.Add(answer.stream.Add(token.id)));
      const auto& ids = by.options.stop_ids;
      answer.has_ended = answer.stops.found() || std::find(ids.begin(), ids.end(), token.id) != ids.end();
      token.is_last = token.is_last || answer.has_ended;
      if (!token.is_last) continue;
      add(answer, answer.stops.Add(answer.stream.Finish()));
      add(answer, answer.stops.Finish());
    }
  };
  GenerateOptions options = by.options;
  options.first_prompt = first;
  Generate(*by.model, prompts, options, take);
  return answers;
}

void Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

absl::Status AnswerOne(const Answerer& by, const Conversation& question, bool streams) {
  const auto print = [streams](const std::string& text) {
    if (streams) Print(text);
  };
  DISTILL_ASSIGN_OR_RETURN(const auto answers, AnswerAll(by, {&question, 1}, 0, print));
  Print(absl::StrCat(streams ? "" : answers[0].text, "\n"));
  return absl::OkStatus();
}

absl::Status AnswerMany(const Answerer& by, const std::vector<Conversation>& questions, const std::string& path) {
  std::unique_ptr<FileWriter> file;
  if (!path.empty()) {
    DISTILL_ASSIGN_OR_RETURN(file, CreateFile(path));
  }
  for (size_t begin = 0; begin < questions.size(); begin += kTogether) {
    const auto part = absl::MakeConstSpan(questions).subspan(begin, kTogether);
    DISTILL_ASSIGN_OR_RETURN(const auto answers, AnswerAll(by, part, begin, [](const std::string&) {}));
    std::string lines;
    for (size_t i = 0; i < part.size(); ++i) {
      const TextAnswer& answer = answers[i];
      absl::StrAppend(&lines, JsonText(AnsweredRow(part[i], answer.text, answer.has_ended, answer.tokens)), "\n");
    }
    if (file != nullptr) DISTILL_RETURN_IF_ERROR(file->Append(lines));
    if (file == nullptr) Print(lines);
    LogInfo(absl::StrCat("answered ", begin + part.size(), " of ", questions.size(), " prompts"));
  }
  return file == nullptr ? absl::OkStatus() : file->Commit();
}

}  // namespace

absl::Status AnswerPrompts(const LlmCommand& command, c10::Device device) {
  const LlmFlags& flags = command.flags;
  std::vector<Conversation> questions;
  for (const std::string& prompt : flags.prompt) questions.push_back(QuestionOf(prompt));
  if (!flags.prompts.empty()) {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<Conversation> read, ReadQuestions(flags.prompts, command.options.rows));
    if (read.empty()) return absl::InvalidArgumentError(absl::StrCat("prompts: ", flags.prompts, " has no rows"));
    questions.insert(questions.end(), read.begin(), read.end());
  }
  DISTILL_ASSIGN_OR_RETURN(const Answerer by, LoadAnswerer(command, device));
  if (flags.prompt.size() != 1 || !flags.prompts.empty() || !flags.answers.empty()) {
    return AnswerMany(by, questions, flags.answers);
  }
  const bool streams = flags.stream == Switch::kAuto ? isatty(STDOUT_FILENO) == 1 : flags.stream == Switch::kTrue;
  return AnswerOne(by, questions.front(), streams);
}

}  // namespace distill
