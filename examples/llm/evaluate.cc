// Judges models by held-out data: cross-entropy, calibration, greedy answers that are right, speed and size; beside a
// teacher also divergence from it and how often both agree (judge.h says what each figure is).
//
//   evaluate_llm --dataset_name FILE [--teacher_model DIR] [--json OUT] [--dtype bfloat16] NAME=DIR...
//
// All of them may be s3://, or names of the hub. Each model reads the data by the chat template of its own folder, and
// by the tokenizer of the teacher, or without one by its own.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/llm/held_out.h"
#include "examples/llm/judge.h"
#include "libdistill/config/command_line.h"
#include "libdistill/distill.h"
#include "libdistill/nn/gguf_config.h"
#include "libdistill/run/hub_paths.h"
#include "libdistill/store/durable_files.h"

namespace distill {
namespace {

enum class WeightType { kFloat32, kBFloat16 };
constexpr EnumNames<WeightType, 2> NamesOf(WeightType) {
  return {{{"float32", WeightType::kFloat32}, {"bfloat16", WeightType::kBFloat16}}};
}

struct Arguments {
  std::string teacher;
  std::string dataset;
  std::string split;
  std::string json;
  uint64_t seed = 42;
  int64_t max_length = 4096;
  std::string chat_template;
  WeightType dtype = WeightType::kFloat32;
  RowOptions rows;
  StoreOptions store;
  std::vector<std::pair<std::string, std::string>> models;  // name, folder
};

template <class V>
void Describe(V& v, Arguments& o) {
  v.Group("Options");
  v.Field(
       "teacher_model", o.teacher,
       "model folder, may be s3://, or a model of the hub (org/name); its tokenizer is used. Empty: models are judged "
       "by the data alone, each by its own tokenizer")
      .PathOfAnyStore()
      .Alias("teacher");
  v.Field("dataset_name", o.dataset,
          "data: a file of rows, or a folder of them; may be s3://, or a data set of the hub (org/name)")
      .PathOfAnyStore()
      .Alias("dataset");
  v.Field("dataset_split", o.split, "of a folder: the files whose names start with it; empty: all").Alias("split");
  v.Field("json", o.json, "file that the figures are written to; may be s3://").PathOfAnyStore();
  v.Field("seed", o.seed, "of the weights of a folder that holds none");
  v.Field("max_length", o.max_length, AtLeast(2), "tokens; longer rows are cut");
  v.Field("chat_template", o.chat_template,
          "chatml, llama3, a Jinja file or template text; empty: the tokenizer's own");
  v.Field("dtype", o.dtype, "of the weights in memory, and of what is computed with them");
  Describe(v, o.rows);
  Describe(v, o.store);
}

absl::StatusOr<Arguments> ParseArguments(int argc, char** argv) {
  Arguments arguments;
  const Description description = DescriptionOf(arguments);
  const ProgramText program = {
      "evaluate_llm", "Judges models by held-out data, alone or beside a teacher.", "NAME=FOLDER...",
      "  NAME=FOLDER   a model to judge, and what to call it; also NAME=org/name of the hub\n"};
  DISTILL_ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(argc, argv, program, {}, description));
  if (!line.message.empty()) {
    std::printf("%s", line.message.c_str());
    return absl::CancelledError();
  }
  if (arguments.dataset.empty()) {
    return absl::InvalidArgumentError("--dataset_name is required (evaluate_llm --help)");
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

// Null where there is none: of a teacher that was not given, of answers to no questions, of weights in no files.
template <class T>
nlohmann::ordered_json OrNull(const std::optional<T>& value) {
  return value.has_value() ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json ToJson(const Figures& figures) {
  return {{"loss", figures.loss},
          {"kl", OrNull(figures.kl)},
          {"top1_agreement", OrNull(figures.top1_agreement)},
          {"calibration_error", figures.calibration_error},
          {"exact_match", OrNull(figures.exact_match)},
          {"tokens_per_second", OrNull(figures.tokens_per_second)},
          {"parameters", figures.parameters},
          {"weight_bytes", OrNull(figures.weight_bytes)}};
}

void PrintHeader(const HeldOut& held_out) {
  std::printf("%-14s %9s %9s %9s %9s %12s %9s %12s %14s", "model", "loss", "kl", "top-1", "ece", "exact match",
              "tokens/s", "parameters", "bytes");
  const size_t conversations = held_out.questions.prompts.size();
  if (conversations > 0) std::printf("   (%zu conversations)", conversations);
  std::printf("\n");
}

void PrintRow(const std::string& name, const Figures& figures) {
  const auto text = [](const std::optional<double>& value, int digits) {
    return value.has_value() ? absl::StrFormat("%.*f", digits, *value) : "-";
  };
  const auto bytes = figures.weight_bytes;
  std::printf("%-14s %9.4f %9s %9s %9.4f %12s %9s %12s %14s\n", name.c_str(), figures.loss, text(figures.kl, 4).c_str(),
              text(figures.top1_agreement, 4).c_str(), figures.calibration_error, text(figures.exact_match, 3).c_str(),
              text(figures.tokens_per_second, 0).c_str(), absl::StrCat(figures.parameters).c_str(),
              bytes.has_value() ? absl::StrCat(*bytes).c_str() : "-");
  std::fflush(stdout);
}

// Names of the hub become folders.
absl::Status FetchSources(RunContext& run, Arguments& arguments) {
  std::vector<NamedPath> paths = {
      {"dataset_name", arguments.dataset, {HubKind::kDataset, {HubContents::kRows, arguments.split}}}};
  for (const auto& [name, folder] : arguments.models) paths.push_back({name, folder, {HubKind::kModel}});
  if (!arguments.teacher.empty()) paths.push_back({"teacher_model", arguments.teacher, {HubKind::kModel}});
  DISTILL_RETURN_IF_ERROR(PinOnAllRanks(run, paths));
  DISTILL_RETURN_IF_ERROR(FetchOnEachHost(run, paths));
  arguments.dataset = paths[0].text;
  for (size_t i = 0; i < arguments.models.size(); ++i) arguments.models[i].second = paths[1 + i].text;
  if (!arguments.teacher.empty()) arguments.teacher = paths.back().text;
  return absl::OkStatus();
}

// What a model is judged by: the data as the one before it read them, where this one reads them alike.
absl::Status LoadFor(const std::string& folder, const Arguments& arguments, std::optional<HeldOut>& held_out) {
  DISTILL_ASSIGN_OR_RETURN(auto tokenizer, Tokenizer::Load(folder));
  absl::StatusOr<ChatTemplate> chat = ChatTemplate::Create(arguments.chat_template, tokenizer);
  const bool asks_for_own = arguments.chat_template.empty() || arguments.chat_template == "auto";
  const bool has_none = asks_for_own && tokenizer.chat_template().empty();
  // Plain texts need none; a template that is there and cannot be read is an error.
  const absl::Status missing = has_none ? chat.status() : absl::OkStatus();
  if (!missing.ok()) chat = ChatTemplate::Create("chatml", tokenizer);
  if (!chat.ok()) return Annotate(chat.status(), folder);
  const bool has_teacher = !arguments.teacher.empty();
  const bool is_alike = held_out && held_out->chat_template == chat->text() &&
                        (has_teacher || held_out->tokenizer.fingerprint() == tokenizer.fingerprint());
  if (!is_alike) {
    const ChatDatasetOptions options = {
        .split = arguments.split, .max_length = arguments.max_length, .rows = arguments.rows};
    DISTILL_ASSIGN_OR_RETURN(held_out,
                             LoadHeldOut(arguments.dataset, has_teacher ? arguments.teacher : folder, *chat, options));
  }
  if (!missing.ok() && !held_out->questions.prompts.empty()) return Annotate(missing, folder);
  return has_teacher ? RequireSameTokenizer(held_out->tokenizer, tokenizer) : absl::OkStatus();
}

absl::Status CheckFolder(const std::string& folder) {
  DISTILL_RETURN_IF_ERROR(CheckModelFolder(folder));
  return CheckGgufTokenizer(folder);
}

absl::Status Evaluate(RunContext& run, Arguments arguments) {
  DISTILL_RETURN_IF_ERROR(FetchSources(run, arguments));
  const LoadOptions options = {.dtype = arguments.dtype == WeightType::kBFloat16 ? torch::kBFloat16 : torch::kFloat32,
                               .device = run.device(),
                               .dequantise = true};
  if (!arguments.teacher.empty()) DISTILL_RETURN_IF_ERROR(Annotate(CheckFolder(arguments.teacher), "teacher_model"));
  for (const auto& [name, folder] : arguments.models) DISTILL_RETURN_IF_ERROR(Annotate(CheckFolder(folder), name));
  std::shared_ptr<Decoder> teacher;
  if (!arguments.teacher.empty()) {
    DISTILL_ASSIGN_OR_RETURN(teacher, LoadDecoder(arguments.teacher, options));
  }
  std::optional<HeldOut> held_out;
  nlohmann::ordered_json all;
  for (const auto& [name, folder] : arguments.models) {
    DISTILL_RETURN_IF_ERROR(LoadFor(folder, arguments, held_out));
    if (all.empty()) PrintHeader(*held_out);
    DISTILL_ASSIGN_OR_RETURN(const bool has_weights, HasWeights(folder));
    DISTILL_ASSIGN_OR_RETURN(
        auto model, has_weights ? LoadDecoder(folder, options) : CreateDecoder(folder, arguments.seed, options));
    DISTILL_ASSIGN_OR_RETURN(const Figures figures, Judge(teacher, model, *held_out));
    PrintRow(name, figures);
    all[name] = ToJson(figures);
  }
  return arguments.json.empty() ? absl::OkStatus() : WriteWholeFile(arguments.json, all.dump(2) + "\n");
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
