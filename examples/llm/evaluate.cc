// Judges models by held-out chat data: cross-entropy, divergence from the teacher, and greedy answers that are right.
//
//   evaluate_llm --teacher_model DIR --dataset_name FILE [--json OUT] NAME=DIR...
//
// All of them may be s3://.
// `loss` and `kl` (KL(teacher || model) at temperature 1) are in nats per assistant token; `exact_match` is the share
// of conversations whose last answer the model gives word for word, from 0 to 1. Each model reads the conversations by
// the chat template of its own folder.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "examples/llm/end_of_answer.h"
#include "libdistill/config/command_line.h"
#include "libdistill/distill.h"
#include "libdistill/run/hub_paths.h"
#include "libdistill/store/durable_files.h"

namespace distill {
namespace {

constexpr int64_t kRows = 64;  // of a batch

struct Arguments {
  std::string teacher;
  std::string dataset;
  std::string split;
  std::string json;
  uint64_t seed = 42;
  RowOptions rows;
  StoreOptions store;
  std::vector<std::pair<std::string, std::string>> models;  // name, folder
};

template <class V>
void Describe(V& v, Arguments& o) {
  v.Group("Options");
  v.Field("teacher_model", o.teacher,
          "model folder, may be s3://, or a model of the hub (org/name); its tokenizer is used")
      .PathOfAnyStore()
      .Alias("teacher");
  v.Field("dataset_name", o.dataset,
          "data: a file of rows, or a folder of them; may be s3://, or a data set of the hub (org/name)")
      .PathOfAnyStore()
      .Alias("dataset");
  v.Field("dataset_split", o.split, "of a folder: the files whose names start with it; empty: all").Alias("split");
  v.Field("json", o.json, "file that the figures are written to; may be s3://").PathOfAnyStore();
  v.Field("seed", o.seed, "of the weights of a folder that holds none");
  Describe(v, o.rows);
  Describe(v, o.store);
}

// What the last answer of each conversation should be, and the ids of all that comes before it.
struct Questions {
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::string> answers;
  int64_t max_new_tokens = 0;
};

struct Figures {
  double loss = 0;
  double kl = 0;
  double exact_match = 0;
};

// The data as a model was trained to read them: by the chat template of its folder.
struct HeldOut {
  std::string chat_template;
  Tokenizer tokenizer;
  ChatDataset data;
  Questions questions;
  std::vector<int32_t> ends;  // of an answer, by the teacher's folder
};

absl::StatusOr<Arguments> ParseArguments(int argc, char** argv) {
  Arguments arguments;
  const Description description = DescriptionOf(arguments);
  const ProgramText program = {
      "evaluate_llm", "Judges models by held-out chat data.", "NAME=FOLDER...",
      "  NAME=FOLDER   a model to judge, and what to call it; also NAME=org/name of the hub\n"};
  DISTILL_ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(argc, argv, program, {}, description));
  if (!line.message.empty()) {
    std::printf("%s", line.message.c_str());
    return absl::CancelledError();
  }
  for (const auto& [name, value] :
       {std::pair("--teacher_model", arguments.teacher), std::pair("--dataset_name", arguments.dataset)}) {
    if (value.empty()) return absl::InvalidArgumentError(absl::StrCat(name, " is required (evaluate_llm --help)"));
  }
  if (line.positional.empty()) return absl::InvalidArgumentError("NAME=FOLDER of a model is required");
  for (const std::string& model : line.positional) {
    const size_t equals = model.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == model.size()) {
      return absl::InvalidArgumentError(absl::StrCat("expected NAME=FOLDER, not '", model, "'"));
    }
    arguments.models.emplace_back(model.substr(0, equals), model.substr(equals + 1));
  }
  return arguments;
}

absl::StatusOr<Questions> AskFor(const std::vector<Conversation>& conversations, const ChatTemplate& chat_template,
                                 const Tokenizer& tokenizer) {
  Questions questions;
  for (const Conversation& conversation : conversations) {
    if (conversation.messages.empty()) {
      return absl::InvalidArgumentError(
          "rows of plain 'text' hold no question to answer: give evaluate_llm conversations, or questions with their "
          "answers");
    }
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

absl::StatusOr<HeldOut> LoadHeldOut(const Arguments& arguments, const ChatTemplate& chat) {
  DISTILL_ASSIGN_OR_RETURN(auto tokenizer, Tokenizer::Load(arguments.teacher));
  DISTILL_ASSIGN_OR_RETURN(auto ends, EndsOfAnswer(arguments.teacher, tokenizer));
  if (ends.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        arguments.teacher, ": nothing says where an answer ends; set eos_token in tokenizer_config.json, or ",
        "eos_token_id in generation_config.json"));
  }
  DISTILL_ASSIGN_OR_RETURN(auto data, LoadChatDataset(arguments.dataset, tokenizer, chat,
                                                      {.split = arguments.split, .rows = arguments.rows}));
  DISTILL_ASSIGN_OR_RETURN(auto questions, AskFor(data.conversations, chat, tokenizer));
  return HeldOut{chat.text(), std::move(tokenizer), std::move(data), std::move(questions), std::move(ends)};
}

// An answer ends where the teacher's chat template ends one, or where the student's own folder says.
absl::StatusOr<double> ExactMatch(Decoder& model, const HeldOut& held_out) {
  DISTILL_ASSIGN_OR_RETURN(std::vector<int32_t> ends, ReadStopIds(model.source_folder()));
  ends.insert(ends.end(), held_out.ends.begin(), held_out.ends.end());
  GenerateOptions options;
  options.max_new_tokens = held_out.questions.max_new_tokens;
  options.stop_ids = ends;
  options.vocabulary = std::min(held_out.tokenizer.vocab_size(), model.head_weight().size(0));
  const auto answers = Generate(model, held_out.questions.prompts, options);
  int64_t right = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    const bool ended = !answers[i].empty() && std::find(ends.begin(), ends.end(), answers[i].back()) != ends.end();
    const auto words = absl::MakeConstSpan(answers[i].data(), answers[i].size() - (ended ? 1 : 0));
    right += ended && held_out.tokenizer.Decode(words) == held_out.questions.answers[i];
  }
  return static_cast<double>(right) / answers.size();
}

absl::StatusOr<Figures> Judge(const std::shared_ptr<Decoder>& teacher, const std::shared_ptr<Decoder>& model,
                              const HeldOut& held_out) {
  const torch::NoGradGuard no_grad;
  DISTILL_ASSIGN_OR_RETURN(const auto objective,
                           LogitDistillation::CreateLive(teacher, model, {.temperature = 1, .alpha = 1}));
  ShardOptions options;
  options.rows_per_rank = kRows;
  options.shuffle = false;
  DISTILL_ASSIGN_OR_RETURN(auto batches, TokenBatches::Create(held_out.data.tokens, 0, 1, options));
  Figures figures;
  double tokens = 0;
  DISTILL_ASSIGN_OR_RETURN(const int64_t steps, batches.StepsInEpoch(0));
  for (int64_t step = 0; step < steps; ++step) {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<TokenBatch> micro_batches, batches.NextStep());
    for (const TokenBatch& batch : micro_batches) {
      if (batch.num_loss_tokens() == 0) continue;
      const Losses losses = objective->Forward(batch, {});
      const LossTerm& ce = *losses.Find("ce");
      tokens += static_cast<double>(ce.count);
      figures.loss += ce.sum.item<double>();
      figures.kl += losses.Find("kl")->sum.item<double>();
    }
  }
  figures.loss /= tokens;
  figures.kl /= tokens;
  DISTILL_ASSIGN_OR_RETURN(figures.exact_match, ExactMatch(*model, held_out));
  return figures;
}

absl::Status WriteJson(const std::string& path, const nlohmann::ordered_json& figures) {
  return WriteWholeFile(path, figures.dump(2) + "\n");
}

// Names of the hub become folders.
absl::Status FetchSources(RunContext& run, Arguments& arguments) {
  std::vector<NamedPath> paths = {
      {"teacher_model", arguments.teacher, {HubKind::kModel}},
      {"dataset_name", arguments.dataset, {HubKind::kDataset, {HubContents::kRows, arguments.split}}}};
  for (const auto& [name, folder] : arguments.models) paths.push_back({name, folder, {HubKind::kModel}});
  DISTILL_RETURN_IF_ERROR(PinOnAllRanks(run, paths));
  DISTILL_RETURN_IF_ERROR(FetchOnEachHost(run, paths));
  arguments.teacher = paths[0].text;
  arguments.dataset = paths[1].text;
  for (size_t i = 0; i < arguments.models.size(); ++i) arguments.models[i].second = paths[2 + i].text;
  return absl::OkStatus();
}

absl::Status Evaluate(RunContext& run, Arguments arguments) {
  DISTILL_RETURN_IF_ERROR(FetchSources(run, arguments));
  const c10::Device device = run.device();
  const LoadOptions options = {.dtype = torch::kFloat32, .device = device, .dequantise = true};
  std::optional<HeldOut> held_out;
  DISTILL_ASSIGN_OR_RETURN(auto teacher, LoadDecoder(arguments.teacher, options));
  nlohmann::ordered_json all;
  for (const auto& [name, folder] : arguments.models) {
    DISTILL_ASSIGN_OR_RETURN(auto tokenizer, Tokenizer::Load(folder));
    DISTILL_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Create("", tokenizer));
    const bool is_first = !held_out;
    if (is_first || held_out->chat_template != chat.text()) {
      DISTILL_ASSIGN_OR_RETURN(held_out, LoadHeldOut(arguments, chat));
    }
    DISTILL_RETURN_IF_ERROR(RequireSameTokenizer(held_out->tokenizer, tokenizer));
    if (is_first) {
      std::printf("%-14s %10s %10s %12s   (%zu conversations)\n", "model", "loss", "kl", "exact match",
                  held_out->questions.prompts.size());
    }
    DISTILL_ASSIGN_OR_RETURN(const bool has_weights, HasWeights(folder));
    DISTILL_ASSIGN_OR_RETURN(
        auto model, has_weights ? LoadDecoder(folder, options) : CreateDecoder(folder, arguments.seed, options));
    DISTILL_ASSIGN_OR_RETURN(const Figures figures, Judge(teacher, model, *held_out));
    std::printf("%-14s %10.4f %10.4f %12.3f\n", name.c_str(), figures.loss, figures.kl, figures.exact_match);
    all[name] = {{"loss", figures.loss}, {"kl", figures.kl}, {"exact_match", figures.exact_match}};
  }
  return arguments.json.empty() ? absl::OkStatus() : WriteJson(arguments.json, all);
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  const absl::StatusOr<distill::Arguments> arguments = distill::ParseArguments(argc, argv);
  if (absl::IsCancelled(arguments.status())) return 0;  // --help
  distill::RunOptions options;
  if (arguments.ok()) options.store = arguments->store;
  options.input = arguments.status();
  return distill::Run(options, [&](distill::RunContext& run) { return distill::Evaluate(run, *arguments); });
}
