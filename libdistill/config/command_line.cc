#include "libdistill/config/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "libdistill/config/config_file.h"
#include "libdistill/config/option_names.h"
#include "libdistill/config/reference.h"
#include "libdistill/core/home.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/version.h"

namespace distill {
namespace {

constexpr char kConfigFile[] = "config_file";

struct Setting {
  const FieldDescription* field;
  std::string value;
};

// CLI11's, with the arguments that have no name, which it does not know.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(const ProgramText& program) : program_(program) {}

  std::string make_usage(const CLI::App*, std::string name) const override {
    const bool has_further = program_.positional != nullptr;
    return absl::StrCat("Usage: ", name, has_further ? " " : "", has_further ? program_.positional : "", " [OPTIONS]\n",
                        *program_.positional_help == '\0' ? "" : "\n", program_.positional_help);
  }

 private:
  const ProgramText program_;
};

class Parser {
 public:
  Parser(const ProgramText& program, const Description& settings, const Description& flags)
      : program_(program), settings_(settings), flags_(flags), in_file_(settings), app_(program.about, program.name) {
    app_.allow_extras();
    app_.formatter(std::make_shared<HelpFormatter>(program));
    if (!settings.fields().empty()) {
      all_.Group("Options");
      all_.Field(kConfigFile, config_file_, "YAML or JSON file of the settings below, which override it")
          .Path()
          .Alias("config", "config_path", "yaml", "recipe");
    }
    all_.Join(flags);
    all_.Join(settings);
    for (const FieldDescription& flag : flags.fields())
      in_file_.Refuse({flag.name.c_str()}, "stands on the command line alone");
    app_.add_flag("--version", wants_version_, "print the version");
    app_.add_flag("--help_markdown", wants_markdown_, "print all options as a page of documentation");
    for (const FieldDescription& field : all_.fields()) Add(field);
  }

  absl::StatusOr<CommandLine> Parse(int argc, const char* const* argv) {
    const absl::Status named = Name(argc, argv);
    std::reverse(arguments_.begin(), arguments_.end());  // CLI11 takes them from the back
    try {
      app_.parse(std::move(arguments_));
    } catch (const CLI::CallForHelp&) {
      line_.message = app_.help();
      return std::move(line_);
    } catch (const CLI::ParseError& error) {
      return absl::InvalidArgumentError(error.what());
    }
    if (asked_ != nullptr) line_.message = DescribeOption(*asked_);
    if (wants_version_) line_.message = absl::StrCat(VersionLine(), "\n");
    if (wants_markdown_) line_.message = OptionsAsMarkdown(program_, settings_, flags_);
    if (!line_.message.empty()) return std::move(line_);
    DISTILL_RETURN_IF_ERROR(named);
    line_.positional = app_.remaining();
    TakeConfigFile();
    if (program_.positional == nullptr && !line_.positional.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unexpected argument '", line_.positional.front(), "'; options are --name value"));
    }
    DISTILL_RETURN_IF_ERROR(SetAll());
    return std::move(line_);
  }

 private:
  void Add(const FieldDescription& field) {
    if (field.is_in_code_only) return;
    const std::string name = absl::StrCat("--", field.name), help = HelpOf(field);
    const auto take = [this, &field](const std::string& text) { given_.push_back({&field, text}); };
    const auto take_all = [take](const std::vector<std::string>& texts) { absl::c_for_each(texts, take); };
    // CLI11 takes "[a, b]" apart where it expects several texts at once.
    CLI::Option* option = field.is_repeated ? app_.add_option_function<std::vector<std::string>>(name, take_all, help)
                                                  ->expected(1)
                                                  ->allow_extra_args(false)
                                            : app_.add_option_function<std::string>(name, take, help)->take_last();
    option->type_name(TypeOf(field))->default_str(field.initial)->group(field.group);
    if (field.is_repeated) option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }

  // Gives CLI11 arguments by their own names and with a value each. The error, which says all that is wrong, a line
  // each, is kept, so that --help comes first.
  absl::Status Name(int argc, const char* const* argv) {
    std::vector<std::string> wrong;
    const auto keep = [&wrong](const absl::Status& status) {
      if (!status.ok()) wrong.emplace_back(status.message());
    };
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      if (!absl::StartsWith(argument, "-") || argument == "-") {
        arguments_.push_back(argument);
        continue;
      }
      const size_t equals = argument.find('=');
      const size_t begin = std::min(argument.find_first_not_of('-'), argument.size());
      const std::string name = absl::StrReplaceAll(argument.substr(begin, equals - begin), {{"-", "_"}});
      if ((name == "help" || name == "h") && i + 1 < argc && !absl::StartsWith(argv[i + 1], "-")) {
        keep(LookUp(absl::StrReplaceAll(argv[++i], {{"-", "_"}})));
        continue;
      }
      if (IsOfParser(name)) {
        arguments_.push_back(name == "h" ? "--help" : absl::StrCat("--", name));
        continue;
      }
      std::optional<std::string> value;
      if (equals != std::string::npos) value = argument.substr(equals + 1);
      const auto next = i + 1 < argc ? std::optional<std::string>(argv[i + 1]) : std::nullopt;
      if (!value && StandsAlone(all_, name, next, program_.positional != nullptr)) value = "true";
      if (!value && i + 1 < argc) value = argv[++i];
      keep(NameOne(name, value));
    }
    return wrong.empty() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrJoin(wrong, "\n"));
  }

  // For --help KEY.
  absl::Status LookUp(const std::string& name) {
    DISTILL_ASSIGN_OR_RETURN(const MeantOption meant, FindOption(all_, NameKind::kOption, name, ""));
    asked_ = meant.field;
    if (asked_ != nullptr) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--help ", name, ": ", meant.is_map ? "a map of options" : meant.note));
  }

  static bool IsOfParser(const std::string& name) {
    return name == "help" || name == "h" || name == "version" || name == "help_markdown";
  }

  absl::Status NameOne(const std::string& name, const std::optional<std::string>& value) {
    DISTILL_ASSIGN_OR_RETURN(const MeantOption meant, FindOption(all_, NameKind::kOption, name, value.value_or("")));
    if (!value) {
      const std::string help = meant.field == nullptr ? "" : absl::StrCat(": ", meant.field->help);
      return absl::InvalidArgumentError(absl::StrCat("--", name, ": expected a value", help));
    }
    if (!meant.note.empty()) line_.notes.push_back(meant.note);
    if (meant.is_map) maps_.emplace_back(name, *value);
    if (meant.field != nullptr) arguments_.insert(arguments_.end(), {"--" + meant.field->name, meant.value});
    return absl::OkStatus();
  }

  // `distill_llm my.yaml` is `distill_llm --config_file my.yaml`.
  void TakeConfigFile() {
    if (program_.positional != nullptr || settings_.fields().empty() || line_.positional.size() != 1) return;
    for (const Setting& setting : given_) {
      if (setting.field->name == kConfigFile) return;
    }
    const std::string& path = line_.positional.front();
    for (const char* ending : {".yaml", ".yml", ".json"}) {
      if (!absl::EndsWith(path, ending)) continue;
      config_file_ = ExpandHome(path);
      line_.positional.clear();
      return;
    }
  }

  absl::Status SetAll() {
    for (const Setting& setting : given_) {
      if (setting.field->name == kConfigFile) DISTILL_RETURN_IF_ERROR(Set(setting));
    }
    if (!config_file_.empty()) DISTILL_RETURN_IF_ERROR(ReadConfigFile(config_file_, in_file_, line_.notes));
    for (const auto& [name, text] : maps_) {
      DISTILL_RETURN_IF_ERROR(ReadConfigMap("--" + name, text, all_, line_.notes));
    }
    for (const Setting& setting : given_) {
      DISTILL_RETURN_IF_ERROR(Set(setting));
    }
    return absl::OkStatus();
  }

  static absl::Status Set(const Setting& setting) {
    return Annotate(SetOption(*setting.field, setting.value), absl::StrCat("--", setting.field->name));
  }

  const ProgramText& program_;
  const Description& settings_;
  const Description& flags_;
  Description in_file_;  // the settings, and of the flags that they are none
  Description all_;
  CLI::App app_;
  std::string config_file_;
  const FieldDescription* asked_ = nullptr;  // by --help KEY
  bool wants_version_ = false, wants_markdown_ = false;
  std::vector<std::string> arguments_;
  std::vector<Setting> given_;
  std::vector<std::pair<std::string, std::string>> maps_;
  CommandLine line_;
};

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv, const ProgramText& program,
                                             const Description& settings, const Description& flags) {
  return Parser(program, settings, flags).Parse(argc, argv);
}

}  // namespace distill
