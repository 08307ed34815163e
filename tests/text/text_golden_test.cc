// Against the oracles' results that tests/golden/text_golden.py wrote into the build folder.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/store/files.h"
#include "libdistill/store/jsonl.h"
#include "libdistill/text/chat_template.h"
#include "libdistill/text/jinja.h"
#include "libdistill/text/tokenizer.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

const std::string kFolder = std::string(DISTILL_BUILD_DIR) + "/golden/text";

template <typename Visit>
int64_t ForEachRow(const std::string& path, const Visit& visit) {
  auto reader = JsonlReader::Open(path);
  REQUIRE(reader.ok());
  int64_t rows = 0;
  for (;; ++rows) {
    const auto row = reader->Next();
    REQUIRE(row.ok());
    if (!row->has_value()) return rows;
    visit((*row)->value);
  }
}

std::vector<int32_t> Ids(const JsonValue& list) {
  std::vector<int32_t> ids;
  for (const JsonValue& item : list.items) ids.push_back(static_cast<int32_t>(item.number));
  return ids;
}

std::vector<std::pair<size_t, size_t>> Ranges(const JsonValue& list) {
  std::vector<std::pair<size_t, size_t>> ranges;
  for (const JsonValue& item : list.items) ranges.emplace_back(item.items[0].number, item.items[1].number);
  return ranges;
}

// Whole numbers are integers: the generator writes no others.
jinja::Value ToValue(const JsonValue& json) {
  switch (json.kind) {
    case JsonValue::Kind::kNull:
      return jinja::Value::MakeNone();
    case JsonValue::Kind::kBool:
      return jinja::Value(json.boolean);
    case JsonValue::Kind::kString:
      return jinja::Value(json.text);
    case JsonValue::Kind::kNumber: {
      const auto whole = static_cast<int64_t>(json.number);
      return static_cast<double>(whole) == json.number ? jinja::Value(whole) : jinja::Value(json.number);
    }
    case JsonValue::Kind::kArray: {
      std::vector<jinja::Value> items;
      for (const JsonValue& item : json.items) items.push_back(ToValue(item));
      return jinja::MakeList(std::move(items)).value();
    }
    case JsonValue::Kind::kObject:
      break;
  }
  std::vector<std::pair<jinja::Value, jinja::Value>> entries;
  for (const auto& [name, value] : json.members) entries.emplace_back(jinja::Value(name), ToValue(value));
  return jinja::MakeDict(std::move(entries)).value();
}

absl::StatusOr<jinja::Output> Render(const JsonValue& row) {
  auto source = jinja::Template::Parse(row.Find("template")->text);
  if (!source.ok()) return source.status();
  std::vector<std::pair<std::string, jinja::Value>> variables;
  for (const auto& [name, value] : row.Find("variables")->members) variables.emplace_back(name, ToValue(value));
  return source->Render(variables);
}

std::vector<ChatMessage> Messages(const JsonValue& row) {
  std::vector<ChatMessage> messages;
  for (const JsonValue& message : row.Find("variables")->Find("messages")->items) {
    messages.push_back({message.Find("role")->text, message.Find("content")->text});
  }
  return messages;
}

}  // namespace

TEST_CASE("every tokenizer gives the ids and the decoded texts of tokenizers") {
  int64_t texts = 0;
  for (const std::string kind :
       {"qwen2", "qwen2_added", "llama3", "llama3_added", "gpt2", "gpt2_prefix", "gpt2_unknown", "gpt2_fused", "smollm",
        "digits", "cl100k", "o200k", "deepseek", "deepseek_coder"}) {
    const std::string folder = kFolder + "/" + kind;
    const auto tokenizer = Tokenizer::Load(folder);
    INFO(kind << ": " << tokenizer.status());
    REQUIRE(tokenizer.ok());
    texts += ForEachRow(folder + "/cases.jsonl", [&](const JsonValue& row) {
      const std::string text = absl::HexStringToBytes(row.Find("hex")->text);
      INFO(kind << ": " << absl::CHexEscape(text));
      const std::vector<int32_t> ids = tokenizer->Encode(text);
      CHECK(ids == Ids(*row.Find("ids")));
      CHECK(tokenizer->Decode(Ids(*row.Find("ids"))) == row.Find("decoded")->text);
      CHECK(tokenizer->Decode(Ids(*row.Find("ids")), true) == row.Find("skipped")->text);
      CHECK(tokenizer->Decode(Ids(*row.Find("drawn"))) == row.Find("drawn_decoded")->text);
    });
  }
  CHECK(texts >= 20000);
}

TEST_CASE("every template renders as jinja2 does, and fails where it fails") {
  int64_t failures = 0, ranges = 0;
  const int64_t rows = ForEachRow(kFolder + "/templates.jsonl", [&](const JsonValue& row) {
    const auto output = Render(row);
    INFO(row.Find("name")->text << "\n" << output.status());
    if (const JsonValue* error = row.Find("error")) {
      INFO("jinja2: " << error->text);
      CHECK_FALSE(output.ok());
      CHECK((output.ok() || output.status().code() == absl::StatusCode::kInvalidArgument));
      CHECK((output.ok() || absl::StrContains(output.status().message(), "line ")));
      ++failures;
      return;
    }
    CHECK(output.ok());
    if (!output.ok()) return;
    CHECK(output->text == row.Find("text")->text);
    if (const JsonValue* expected = row.Find("ranges")) {
      auto found = output->generation;
      std::sort(found.begin(), found.end());
      CHECK(found == Ranges(*expected));
      ++ranges;
    }
  });
  CHECK(rows > 1400);
  CHECK(failures > 100);
  CHECK(ranges > 20);
}

TEST_CASE("the assistant's ranges are its contents and end-of-turn tokens in published templates") {
  const auto tokenizer = Tokenizer::Parse(*ReadFile(kFolder + "/qwen2/tokenizer.json"),
                                          R"({"bos_token": "<s>", "eos_token": null})", "tokenizer.json");
  REQUIRE(tokenizer.ok());
  int64_t checked = 0;
  ForEachRow(kFolder + "/templates.jsonl", [&](const JsonValue& row) {
    if (row.Find("turns") == nullptr) return;
    std::string text = row.Find("template")->text;
    text.insert(0, "{% set eos_token = '</s>' %}{% set date_string = '26 Jul 2024' %}");
    const auto chat_template = ChatTemplate::Create(text, *tokenizer);
    INFO(row.Find("name")->text << "\n" << chat_template.status());
    REQUIRE(chat_template.ok());
    const auto rendered = chat_template->RenderForTraining(Messages(row));
    INFO(rendered.status());
    REQUIRE(rendered.ok());
    CHECK(rendered->text == row.Find("text")->text);
    std::vector<std::string> found, expected;
    for (const auto& [b, e] : rendered->assistant) found.push_back(rendered->text.substr(b, e - b));
    for (const auto& [b, e] : Ranges(*row.Find("turns"))) expected.push_back(rendered->text.substr(b, e - b));
    for (std::string& part : found) part = std::string(absl::StripLeadingAsciiWhitespace(part));
    CHECK(found == expected);
    ++checked;
  });
  CHECK(checked > 20);
}

}  // namespace distill
