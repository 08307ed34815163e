// Against what tokenizers and transformers give; tests/golden/text_golden.py wrote it into the build folder.
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/store/files.h"
#include "libdistill/text/chat_template.h"
#include "libdistill/text/tokenizer.h"
#include "tests/support/catch.h"
#include "tests/text/golden_rows.h"

namespace distill {
namespace {

std::vector<int32_t> Ids(const JsonValue& list) {
  std::vector<int32_t> ids;
  for (const JsonValue& item : list.items) ids.push_back(static_cast<int32_t>(item.number));
  return ids;
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
    const std::string folder = kGoldenText + "/" + kind;
    const auto tokenizer = Tokenizer::Load(folder);
    INFO(kind << ": " << tokenizer.status());
    REQUIRE(tokenizer.ok());
    texts += ForEachRow(folder + "/cases.jsonl", [&](const JsonValue& row) {
      const std::string text = absl::HexStringToBytes(row.Find("hex")->text);
      INFO(kind << ": " << absl::CHexEscape(text));
      const std::vector<int32_t> ids = tokenizer->Encode(text).value();
      CHECK(ids == Ids(*row.Find("ids")));
      CHECK(tokenizer->Decode(Ids(*row.Find("ids"))) == row.Find("decoded")->text);
      CHECK(tokenizer->Decode(Ids(*row.Find("ids")), true) == row.Find("skipped")->text);
      CHECK(tokenizer->Decode(Ids(*row.Find("drawn"))) == row.Find("drawn_decoded")->text);
    });
  }
  CHECK(texts >= 20000);
}

TEST_CASE("special tokens beside tokenizer.json are merged as AutoTokenizer merges them") {
  const std::string all = kGoldenText + "/special";
  const int64_t folders = ForEachRow(all + "/folders.jsonl", [&](const JsonValue& said) {
    const std::string folder = all + "/" + said.Find("name")->text;
    const auto tokenizer = Tokenizer::Load(folder);
    INFO(folder << ": " << tokenizer.status());
    REQUIRE(tokenizer.ok());
    CHECK(tokenizer->bos_token() == said.Find("bos_token")->text);
    CHECK(tokenizer->eos_token() == said.Find("eos_token")->text);
    CHECK(tokenizer->pad_token() == said.Find("pad_token")->text);
    CHECK(tokenizer->unk_token() == said.Find("unk_token")->text);
    CHECK(tokenizer->eos_id().value_or(-1) == static_cast<int32_t>(said.Find("eos_id")->number));
    CHECK(tokenizer->vocab_size() == static_cast<int64_t>(said.Find("size")->number));
    ForEachRow(folder + "/cases.jsonl", [&](const JsonValue& row) {
      const std::string text = absl::HexStringToBytes(row.Find("hex")->text);
      INFO(absl::CHexEscape(text));
      CHECK(tokenizer->Encode(text).value() == Ids(*row.Find("ids")));
      CHECK(tokenizer->Decode(Ids(*row.Find("ids"))) == row.Find("decoded")->text);
      CHECK(tokenizer->Decode(Ids(*row.Find("ids")), true) == row.Find("skipped")->text);
    });
  });
  CHECK(folders >= 9);
}

TEST_CASE("the assistant's ranges are its contents and end-of-turn tokens in published templates") {
  const auto tokenizer =
      Tokenizer::Parse({*ReadFile(kGoldenText + "/qwen2/tokenizer.json"), R"({"bos_token": "<s>", "eos_token": null})"},
                       "tokenizer.json");
  REQUIRE(tokenizer.ok());
  int64_t checked = 0;
  ForEachRow(kGoldenText + "/templates.jsonl", [&](const JsonValue& row) {
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
