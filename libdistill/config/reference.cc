#include "libdistill/config/reference.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace distill {
namespace {

std::string Cell(const std::string& text) { return absl::StrReplaceAll(text, {{"|", "\\|"}, {"\n", " "}}); }
std::string Code(const std::string& text) { return text.empty() ? "" : absl::StrCat("`", Cell(text), "`"); }

void CodeEach(std::string* out, const std::string& text) { out->append(Code(text)); }

std::string ValuesOfField(const FieldDescription& field) {
  if (!field.choices.empty()) return absl::StrJoin(field.choices, ", ", CodeEach);
  const std::string limits = LimitsText(field.limits);
  const std::string kind = field.is_path ? "a path" : field.kind.words;
  return limits.empty() ? kind : absl::StrCat(kind, ", ", limits);
}

std::string OtherNames(const FieldDescription& field) {
  return absl::StrJoin(field.aliases, ", ", [](std::string* out, const FieldAlias& alias) {
    out->append(Code(alias.name));
    if (alias.values.empty()) return;
    absl::StrAppend(out, " (", absl::StrJoin(alias.values, ", ", absl::PairFormatter(": ")), ")");
  });
}

std::vector<std::string> GroupsOf(const Description& description) {
  std::vector<std::string> groups;
  for (const FieldDescription& field : description.fields()) {
    bool is_new = !field.is_in_code_only;
    for (const std::string& group : groups) is_new = is_new && group != field.group;
    if (is_new) groups.push_back(field.group);
  }
  return groups;
}

void AppendGroups(const Description& description, std::string& page) {
  for (const std::string& group : GroupsOf(description)) {
    absl::StrAppend(&page, "\n## ", group, "\n\n| option | default | values | what it is | the same in other tools |\n",
                    "|---|---|---|---|---|\n");
    for (const FieldDescription& field : description.fields()) {
      if (field.group != group || field.is_in_code_only) continue;
      absl::StrAppend(&page, "| ", Code(field.name), " | ", Code(field.initial), " | ", ValuesOfField(field), " | ",
                      Cell(field.help), " | ", OtherNames(field), " |\n");
    }
  }
}

void AppendMaps(const Description& description, std::string& page) {
  if (description.sections().empty()) return;
  absl::StrAppend(&page, "\n## Maps in a config file\n\nEach of these may hold options by their flat names; those of ",
                  "the second column are called otherwise there.\n\n| map | keys |\n|---|---|\n");
  for (const ConfigSection& section : description.sections()) {
    absl::StrAppend(&page, "| ", Code(section.name + ":"), " | ",
                    absl::StrJoin(section.renamed, ", ", absl::PairFormatter(CodeEach, " for ", CodeEach)), " |\n");
  }
}

void AppendForeign(const Description& description, std::string& page) {
  if (description.foreign().empty()) return;
  absl::StrAppend(&page, "\n## Names of other tools that are no options here\n\nAccepted with these values, which ask ",
                  "for what happens anyway; refused with others.\n\n| name | accepted | why no other value |\n",
                  "|---|---|---|\n");
  for (const ForeignName& foreign : description.foreign()) {
    const std::string accepted = foreign.is_noted ? "any, with a note" : absl::StrJoin(foreign.values, ", ", CodeEach);
    absl::StrAppend(&page, "| ", Code(foreign.name), " | ", accepted, " | ", Cell(foreign.reason), " |\n");
  }
}

}  // namespace

std::string HelpOf(const FieldDescription& field) {
  std::string help = field.help;
  for (size_t i = 0; i < field.choices.size(); ++i) {
    const char* between = i == 0 ? ": " : i + 1 == field.choices.size() ? " or " : ", ";
    absl::StrAppend(&help, between, field.choices[i]);
  }
  return help;
}

std::string DescribeOption(const FieldDescription& field) {
  const std::string others = OtherNames(field);
  return absl::StrCat("--", field.name, " ", TypeOf(field), "\n  ", field.help, "\n  values: ", ValuesOfField(field),
                      "\n  default: ", field.initial.empty() ? "none" : field.initial,
                      others.empty() ? "" : absl::StrCat("\n  also: ", others), "\n");
}

std::string TypeOf(const FieldDescription& field) { return field.is_path ? "PATH" : field.kind.type; }

std::string OptionsAsMarkdown(const ProgramText& program, const Description& settings, const Description& flags) {
  std::string page = absl::StrCat(
      "# Options of ", program.name, "\n\nWritten by `", program.name,
      " --help_markdown` out of what each options struct ",
      "says of its fields; a test compares.\n\nAn option stands on the command line (`--learning_rate 1e-4`, ",
      "`--learning-rate=1e-4`) or in the YAML or JSON file of `--config_file`\n(`learning_rate: 1e-4`); the command "
      "line ",
      "comes first. `null` in a file leaves the default. A name that nobody knows is an error.\n");
  AppendGroups(settings, page);
  AppendGroups(flags, page);
  AppendMaps(settings, page);
  AppendForeign(settings, page);
  return page;
}

}  // namespace distill
