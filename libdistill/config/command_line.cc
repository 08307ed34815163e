#include "libdistill/config/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libdistill/config/option_table.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/version.h"

namespace distill {
namespace {

constexpr char kShowBatch[] = "show_batch";
constexpr char kPlan[] = "plan";

bool IsYesOrNo(const std::string& name, const Option* option) {
  return name == kShowBatch || name == kPlan ||
         (option != nullptr && std::holds_alternative<bool LlmConfig::*>(option->field));
}

// Names with "_" for "-", and "--name=true" for a yes-or-no setting without a value.
std::vector<std::string> Normalize(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!absl::StartsWith(argument, "--")) {
      arguments.push_back(argument);
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name = absl::StrReplaceAll(argument.substr(2, equals - 2), {{"-", "_"}});
    arguments.push_back(absl::StrCat("--", name, equals == std::string::npos ? "" : argument.substr(equals)));
    const Option* option = FindOption(name);
    const bool is_yes_or_no = IsYesOrNo(name, option);
    if ((option == nullptr && !is_yes_or_no) || equals != std::string::npos) continue;
    const std::string next = i + 1 < argc ? argv[i + 1] : "";
    if (is_yes_or_no && (next.empty() || absl::StartsWith(next, "--"))) {
      arguments.back() += "=true";
    } else if (i + 1 < argc) {
      arguments.push_back(argv[++i]);
    }
  }
  return arguments;
}

const char* TypeName(const Option& option) {
  static constexpr const char* kTypes[] = {"TEXT", "true|false", "INT", "INT", "NUMBER"};
  return option.limits.is_path ? "PATH" : kTypes[option.field.index()];
}

void AddSettings(CLI::App& app, std::map<std::string, std::string>& values) {
  const LlmConfig defaults;
  for (const Option& option : Options()) {
    std::string help = option.help;
    for (size_t i = 0; i < option.limits.choices.size(); ++i) {
      absl::StrAppend(&help,
                      i == 0                                  ? ": "
                      : i + 1 == option.limits.choices.size() ? " or "
                                                              : ", ",
                      option.limits.choices[i]);
    }
    app.add_option_function<std::string>(
           absl::StrCat("--", option.name), [&values, &option](const std::string& text) { values[option.name] = text; },
           help)
        ->type_name(TypeName(option))
        ->default_str(GetOption(defaults, option))
        ->take_last()
        ->group(option.group);
  }
}

void AddFlags(CLI::App& app, ProgramFlags& flags) {
  constexpr char kGroup[] = "Instead of training";
  app.add_option(absl::StrCat("--", kShowBatch), flags.show_batch, "print one decoded batch with its loss mask")
      ->type_name("true|false")
      ->take_last()
      ->group(kGroup);
  app.add_option(absl::StrCat("--", kPlan), flags.plan, "print the memory that a rank and a host need, by kind")
      ->type_name("true|false")
      ->take_last()
      ->group(kGroup);
  app.add_option("--world_size", flags.world_size, "ranks to --plan for; otherwise as many as were started")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->group(kGroup);
  app.add_option("--ranks_per_host", flags.ranks_per_host, "of them on each host; otherwise all on one")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->group(kGroup);
  app.add_option("--generate", flags.generate, "answer --prompt with the model of this folder")
      ->type_name("FOLDER")
      ->group(kGroup);
  app.add_option("--prompt", flags.prompt, "what the user says")->group(kGroup);
  app.add_option("--max_new_tokens", flags.max_new_tokens, "longest answer")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--sampling_temperature", flags.sampling_temperature, "0: always the most likely token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--top_k", flags.top_k, "draw from the k most likely tokens; 0: from all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--top_p", flags.top_p, "draw from the likeliest tokens that hold this share")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->group(kGroup);
}

std::vector<std::string> KnownNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

absl::Status CheckRemaining(const CLI::App& app) {
  for (const std::string& argument : app.remaining()) {
    if (!absl::StartsWith(argument, "-")) {
      return absl::InvalidArgumentError(absl::StrCat("unexpected argument '", argument, "'; options are --name value"));
    }
    const std::string name = argument.substr(std::min(argument.find_first_not_of('-'), argument.size()));
    return UnknownName("option", absl::StrCat("--", name.substr(0, name.find('='))), [&] {
      std::vector<std::string> known = KnownNames(app);
      for (std::string& each : known) each = "--" + each;
      return known;
    }());
  }
  return absl::OkStatus();
}

absl::Status Finish(const std::string& config_file, const std::map<std::string, std::string>& values,
                    CommandLine& command) {
  if (!config_file.empty()) DISTILL_RETURN_IF_ERROR(ReadConfigFile(config_file, command.config));
  for (const Option& option : Options()) {
    const auto value = values.find(option.name);
    if (value == values.end()) continue;
    DISTILL_RETURN_IF_ERROR(
        Annotate(SetOption(command.config, option, value->second), absl::StrCat("--", option.name)));
  }
  if (command.flags.plan) return CheckModels(command.config);
  if (command.flags.world_size > 0 || command.flags.ranks_per_host > 0) {
    return absl::InvalidArgumentError(
        "--world_size and --ranks_per_host go with --plan; a run has the ranks that its launcher starts");
  }
  if (command.flags.generate.empty()) return CheckTogether(command.config);
  if (command.flags.prompt.empty()) return absl::InvalidArgumentError("--generate needs --prompt TEXT");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  CLI::App app("Trains a small language model from the logits of a large one.", "distill_llm");
  app.allow_extras();
  CommandLine command;
  std::map<std::string, std::string> values;
  std::string config_file;
  bool version = false;
  app.add_option("--config_file", config_file, "YAML or JSON file of the settings below, which override it")
      ->type_name("PATH");
  app.add_flag("--version", version, "print the version");
  AddFlags(app, command.flags);
  AddSettings(app, values);
  std::vector<std::string> arguments = Normalize(argc, argv);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    command.message = app.help();
    return command;
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  DISTILL_RETURN_IF_ERROR(CheckRemaining(app));
  if (version) {
    command.message = absl::StrCat(VersionLine(), "\n");
    return command;
  }
  DISTILL_RETURN_IF_ERROR(Finish(config_file, values, command));
  return command;
}

}  // namespace distill
