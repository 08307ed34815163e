// Against what jinja2 renders, under the settings of transformers.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "libdistill/jinja/template.h"
#include "tests/support/catch.h"
#include "tests/text/golden_rows.h"

namespace distill {
namespace {

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

}  // namespace

TEST_CASE("every template renders as jinja2 does, and fails where it fails") {
  int64_t failures = 0, ranges = 0;
  const int64_t rows = ForEachRow(kGoldenText + "/templates.jsonl", [&](const JsonValue& row) {
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

}  // namespace distill
