#include "examples/llm/model_card.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libdistill/store/hub_name.h"

namespace distill {
namespace {

std::string LastPart(const std::string& path) {
  absl::string_view rest = absl::StripSuffix(path, "/");
  return std::string(rest.substr(rest.find_last_of('/') + 1));
}

std::string Cell(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}, {"\n", " "}, {"<", "&lt;"}});
}

// `folder`: of the hub's pages about such things, with a slash, or "".
std::string Link(const std::string& name, absl::string_view folder) {
  if (!IsHubName(name)) return absl::StrCat("`", absl::StrReplaceAll(LastPart(name), {{"`", "'"}}), "`");
  return absl::StrCat("[", name, "](https://huggingface.co/", folder, name, ")");
}

std::string Links(const std::vector<std::string>& names, absl::string_view folder) {
  return absl::StrJoin(names, ", ",
                       [&](std::string* out, const std::string& name) { out->append(Link(name, folder)); });
}

void AddList(std::string& text, absl::string_view key, const std::vector<std::string>& values) {
  std::vector<std::string> known;
  for (const std::string& value : values) {
    if (IsHubName(value) && std::find(known.begin(), known.end(), value) == known.end()) known.push_back(value);
  }
  if (known.empty()) return;
  absl::StrAppend(&text, key, ":\n");
  for (const std::string& value : known) absl::StrAppend(&text, "- ", value, "\n");
}

std::string Metadata(const ModelCard& card) {
  std::string text = "---\nlibrary_name: transformers\npipeline_tag: text-generation\n";
  if (!card.license.empty()) absl::StrAppend(&text, "license: ", card.license, "\n");
  AddList(text, "base_model", {card.student_has_weights ? card.student : "", card.teacher});
  AddList(text, "datasets", card.data_sets);
  return text + "tags:\n- distillation\n- libdistill\n---\n";
}

void AddTable(std::string& text, absl::string_view left, absl::string_view right, const CardRows& rows) {
  absl::StrAppend(&text, "| ", left, " | ", right, " |\n|---|---|\n");
  for (const auto& [name, value] : rows) absl::StrAppend(&text, "| ", Cell(name), " | ", Cell(value), " |\n");
  text += "\n";
}

std::string About(const ModelCard& card) {
  std::string text =
      absl::StrCat(card.teacher.empty() ? "A language model" : "A language model that was distilled from ",
                   card.teacher.empty() ? "" : Link(card.teacher, ""), ", trained with libdistill ", card.version);
  if (!card.student.empty()) {
    absl::StrAppend(&text, ". Training began with ", card.student_has_weights ? "" : "random weights, in the shape of ",
                    Link(card.student, ""));
  }
  if (!card.data_sets.empty()) absl::StrAppend(&text, "; the data: ", Links(card.data_sets, "datasets/"));
  return text + ".\n\n";
}

std::string HowToUse(const ModelCard& card) {
  const std::string model = IsHubName(card.name) ? card.name : LastPart(card.name);
  return absl::StrCat(
      "## How to use it\n\n```python\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
      "tokenizer = AutoTokenizer.from_pretrained(\"",
      card.name, "\")\nmodel = AutoModelForCausalLM.from_pretrained(\"", card.name,
      "\")\n```\n\nWith libdistill:\n\n```\ndistill_llm --generate ", model, " --prompt \"...\"\n```\n");
}

}  // namespace

std::string ModelCardText(const ModelCard& card) {
  std::string text = Metadata(card);
  absl::StrAppend(&text, "\n", kCardMarker, " a page without this line is not replaced -->\n\n# ", LastPart(card.name),
                  "\n\n", About(card));
  if (!card.options.empty()) {
    text += "## Recipe\n\nOptions of `distill_llm` that are not its defaults:\n\n";
    AddTable(text, "option", "value", card.options);
  }
  if (!card.figures.empty()) {
    text += "## Figures\n\n";
    AddTable(text, "figure", "value", card.figures);
  }
  return text + HowToUse(card);
}

std::string MetadataOf(absl::string_view page, absl::string_view name) {
  const std::vector<absl::string_view> lines = absl::StrSplit(page, '\n');
  if (absl::StripAsciiWhitespace(lines.front()) != "---") return "";
  for (size_t i = 1; i < lines.size() && absl::StripAsciiWhitespace(lines[i]) != "---"; ++i) {
    absl::string_view line = lines[i];
    if (!absl::ConsumePrefix(&line, name) || !absl::ConsumePrefix(&line, ":")) continue;
    const absl::string_view value = absl::StripAsciiWhitespace(line);
    const bool is_word = std::all_of(value.begin(), value.end(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
    });
    return is_word ? std::string(value) : "";
  }
  return "";
}

}  // namespace distill
