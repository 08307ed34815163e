// Against what tokenizers and transformers give; tests/golden/text_golden.py wrote it into the build folder.
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/store/files.h"
#include "libdistill/text/chat_template.h"
#include "libdistill/text/token_stream.h"
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

EncodeOptions OptionsOf(const JsonValue& row) {
  const auto number = [&row](const char* key) { return static_cast<int64_t>(row.Find(key)->number); };
  EncodeOptions options;
  options.add_special_tokens = row.Find("special")->boolean;
  options.max_length = number("max_length");
  options.stride = number("stride");
  const std::string& strategy = row.Find("strategy")->text;
  options.truncation = strategy == "only_first"    ? Truncation::kOnlyFirst
                       : strategy == "only_second" ? Truncation::kOnlySecond
                                                   : Truncation::kLongestFirst;
  options.truncate_left = row.Find("left")->boolean;
  options.pad_to = number("pad_to");
  options.pad_to_multiple_of = number("multiple");
  options.pad_left = row.Find("pad_left")->boolean;
  options.pad_id = 7;
  options.pad_type_id = 2;
  return options;
}

void RequireEqual(const Encoding& encoding, const JsonValue& expected, bool has_offsets) {
  const auto widened = [](const std::vector<uint8_t>& list) { return std::vector<int32_t>(list.begin(), list.end()); };
  CHECK(encoding.ids == Ids(*expected.Find("ids")));
  CHECK(encoding.type_ids == Ids(*expected.Find("types")));
  CHECK(encoding.words == Ids(*expected.Find("words")));
  CHECK(widened(encoding.is_special) == Ids(*expected.Find("special")));
  CHECK(widened(encoding.attention_mask) == Ids(*expected.Find("mask")));
  if (const JsonValue& offsets = *expected.Find("offsets"); has_offsets && offsets.kind == JsonValue::Kind::kArray) {
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const JsonValue& pair : offsets.items) pairs.emplace_back(pair.items[0].number, pair.items[1].number);
    CHECK(encoding.offsets == pairs);
  }
  const std::vector<JsonValue>& parts = expected.Find("parts")->items;
  REQUIRE(encoding.overflowing.size() == parts.size());
  for (size_t i = 0; i < parts.size(); ++i) RequireEqual(encoding.overflowing[i], parts[i], has_offsets);
}

Conversation ConversationOf(const JsonValue& row) {
  Conversation conversation;
  for (const JsonValue& message : row.Find("variables")->Find("messages")->items) {
    conversation.messages.push_back({message.Find("role")->text, message.Find("content")->text});
  }
  return conversation;
}

}  // namespace

TEST_CASE("every tokenizer gives the ids and the decoded texts of tokenizers") {
  int64_t texts = 0;
  const int64_t kinds = ForEachRow(kGoldenText + "/kinds.jsonl", [&](const JsonValue& said) {
    const std::string kind = said.Find("name")->text;
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
  });
  CHECK(kinds >= 55);
  CHECK(texts >= 20000);
}

// Token after token.
std::string Streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  TokenStream stream(tokenizer);
  std::string text;
  for (const int32_t id : ids) text += stream.Add(id);
  return text + stream.Finish();
}

TEST_CASE("every tokenizer's tokens give the decoded text one after another, too") {
  int64_t texts = 0;
  ForEachRow(kGoldenText + "/kinds.jsonl", [&](const JsonValue& said) {
    const std::string kind = said.Find("name")->text;
    const auto tokenizer = Tokenizer::Load(kGoldenText + "/" + kind);
    REQUIRE(tokenizer.ok());
    texts += ForEachRow(kGoldenText + "/" + kind + "/cases.jsonl", [&](const JsonValue& row) {
      INFO(kind << ": " << absl::CHexEscape(absl::HexStringToBytes(row.Find("hex")->text)));
      CHECK(Streamed(*tokenizer, Ids(*row.Find("ids"))) == row.Find("skipped")->text);
    });
  });
  CHECK(texts >= 20000);
}

TEST_CASE(
    "every tokenizer makes the encodings of tokenizers: pairs, special tokens, offsets, what is cut off, padding") {
  int64_t encodings = 0;
  ForEachRow(kGoldenText + "/kinds.jsonl", [&](const JsonValue& said) {
    const std::string kind = said.Find("name")->text;
    const std::string folder = kGoldenText + "/" + kind;
    const auto tokenizer = Tokenizer::Load(folder);
    REQUIRE(tokenizer.ok());
    // Where bytes are left out, `tokenizers` counts offsets in letters of the byte alphabet, which stand for no place.
    const bool has_offsets = kind != "gpt2_unknown";
    encodings += ForEachRow(folder + "/encodings.jsonl", [&](const JsonValue& row) {
      const EncodeOptions options = OptionsOf(*row.Find("options"));
      const std::vector<JsonValue>& texts = row.Find("texts")->items;
      INFO(kind << ": " << absl::CHexEscape(texts[0].text) << ", options "
                << row.Find("options")->Find("strategy")->text << " " << options.max_length << " " << options.stride
                << " pair " << texts.size());
      const auto encoding = texts.size() == 1 ? tokenizer->EncodeInput(texts[0].text, options)
                                              : tokenizer->EncodeInput(texts[0].text, texts[1].text, options);
      INFO(encoding.status());
      CHECK(encoding.ok() == (row.Find("error") == nullptr));
      if (encoding.ok()) RequireEqual(*encoding, *row.Find("encoding"), has_offsets);
    });
  });
  CHECK(encodings >= 20000);
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
  CHECK(folders >= 45);
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
    const auto rendered = chat_template->RenderForTraining(ConversationOf(row));
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
