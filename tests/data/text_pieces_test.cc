// Texts cut into pieces for encoders, in memory and through the token cache.
#include "libdistill/data/text_pieces.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/data/token_folder.h"
#include "tests/data/chat_files.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

constexpr int32_t kClass = 1, kEnd = 2, kFirstWord = 5;

// "w0" to "w49" are words of BERT's kind, with [CLS] and [SEP] around a text.
Tokenizer WordTokenizer() {
  std::string vocabulary = "[PAD]\n[CLS]\n[SEP]\n[UNK]\n[MASK]\n";
  for (int i = 0; i < 50; ++i) absl::StrAppend(&vocabulary, "w", i, "\n");
  const TempFolder folder;
  folder.Write("vocab.txt", vocabulary);
  folder.Write("config.json", R"({"model_type": "bert"})");
  return Tokenizer::Load(folder.path()).value();
}

std::string Words(int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, i == 0 ? "" : " ", "w", (first + i) % 50);
  return text;
}

std::string Row(const std::string& text) { return absl::StrCat("{\"text\": \"", text, "\", \"title\": \"t\"}\n"); }

std::vector<std::vector<int32_t>> IdsOf(const Dataset& tokens) {
  std::vector<std::vector<int32_t>> all;
  for (int64_t i = 0; i < tokens.size(); ++i) all.push_back(TokensOf(tokens, i).ids);
  return all;
}

TEST_CASE("a text is cut into pieces of max_length tokens, each with its special tokens, and none of two texts") {
  const TempFolder folder;
  folder.Write("a.jsonl", Row(Words(0, 5)) + Row(Words(10, 14)) + Row("w7") + Row("") + Row(Words(30, 7)));
  const auto data = LoadTextPieces(folder / "a.jsonl", WordTokenizer(), {.max_length = 8});
  INFO(data.status());
  REQUIRE(data.ok());
  std::vector<std::vector<int32_t>> expected;
  const auto add = [&](int first, int count) {
    std::vector<int32_t>& ids = expected.emplace_back(std::vector<int32_t>{kClass});
    for (int i = 0; i < count; ++i) ids.push_back(kFirstWord + first + i);
    ids.push_back(kEnd);
  };
  add(0, 5);
  add(10, 6);
  add(16, 6);
  add(22, 2);
  add(30, 6);  // the seventh word alone would teach nothing
  CHECK(IdsOf(*data->tokens) == expected);
  CHECK(data->summary == "texts 5, pieces 5, without two tokens 2 (first: a.jsonl:3, a.jsonl:4)");
  CHECK(*data->tokens->Length(0) == 7);
  const auto same = CutIntoPieces({Words(0, 5), Words(10, 14), "w7", "", Words(30, 7)}, WordTokenizer(), 8);
  REQUIRE(same.ok());
  CHECK(IdsOf(*same->tokens) == expected);
  CHECK(CutIntoPieces({"w1", ""}, WordTokenizer(), 8).status().message() ==
        "nothing is left to train on: no text has two tokens");
}

TEST_CASE("pieces are the same in memory, by any number of threads, and out of the cache or a folder of tokens") {
  const TempFolder folder;
  std::string rows;
  for (int i = 0; i < 3000; ++i) rows += Row(Words(i, 1 + i * 37 % 90));
  folder.Write("a.jsonl", rows);
  const Tokenizer tokenizer = WordTokenizer();
  const auto in_memory = LoadTextPieces(folder / "a.jsonl", tokenizer, {.max_length = 32}).value();
  TextPiecesOptions cached{.max_length = 32, .num_threads = 3};
  cached.cache.folder = folder / "cache";
  for (int time = 0; time < 2; ++time) {
    const auto kept = LoadTextPieces(folder / "a.jsonl", tokenizer, cached).value();
    CHECK(kept.summary == in_memory.summary);
    CHECK(*kept.tokens->Fingerprint() == *in_memory.tokens->Fingerprint());
    CHECK(IdsOf(*kept.tokens) == IdsOf(*in_memory.tokens));
  }
  std::string entry;
  for (const auto& each : std::filesystem::directory_iterator(folder / "cache")) {
    if (each.is_directory()) entry = each.path().string();
  }
  CHECK(IdsOf(*LoadTextPieces(entry, tokenizer, {.max_length = 32}).value().tokens) == IdsOf(*in_memory.tokens));
  CHECK(absl::StrContains(LoadTextPieces(entry, tokenizer, {.max_length = 16}).status().message(),
                          "made with max_length 32, not 16"));
  CHECK(absl::StrContains(LoadTextPieces(entry, tokenizer, {.column = "page", .max_length = 32}).status().message(),
                          "pieces of text, not pieces of page"));
  const auto few = LoadTextPieces(folder / "a.jsonl", tokenizer, {.num_texts = 10, .max_length = 32}).value();
  CHECK(absl::StartsWith(few.summary, "texts 10, pieces "));
}

TEST_CASE("texts that cannot be read are refused with file, line and reason") {
  const TempFolder folder;
  folder.Write("a.jsonl", Row(Words(0, 5)) + "{\"page\": \"no text\"}\n");
  const Tokenizer tokenizer = WordTokenizer();
  const auto error = [&](const TextPiecesOptions& options) {
    return std::string(LoadTextPieces(folder / "a.jsonl", tokenizer, options).status().message());
  };
  CHECK(absl::StrContains(error({}), "a.jsonl:2"));
  CHECK(absl::StrContains(error({}), "'text'"));
  CHECK(absl::StrContains(error({.max_length = 3}), "max_length"));
  folder.Write("a.jsonl", Row("w1"));
  CHECK(absl::StrContains(error({}), "nothing is left to train on: texts 1, pieces 0, without two tokens 1"));
  CHECK(absl::IsNotFound(LoadTextPieces(folder / "none.jsonl", tokenizer, {}).status()));
}

}  // namespace
}  // namespace distill
