#include "libdistill/text/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/byte_level.h"
#include "libdistill/text/chat_template.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"

namespace distill {
namespace {

// The 256 bytes and "he", "ll", "hell", "hello" after them; <|end|> is special.
std::string ByteVocabulary() {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    AppendUtf8(ByteLevelCharacter(static_cast<uint8_t>(byte)), &token);
    if (token == "\"" || token == "\\") token = "\\" + token;
    absl::StrAppend(&vocab, "\"", token, "\": ", byte, ", ");
  }
  return absl::StrCat(vocab, R"("he": 256, "ll": 257, "hell": 258, "hello": 259)");
}

struct Parts {
  std::string model_type = R"("type": "BPE",)";
  std::string vocab = ByteVocabulary();
  std::string merges = R"(["h e", "l l", ["he", "ll"], ["hell", "o"]])";
  std::string model_options = "";
  std::string normalizer = "null";
  std::string pre_tokenizer = R"({"type": "ByteLevel", "add_prefix_space": false})";
  std::string post_processor = "null";
  std::string decoder = R"({"type": "ByteLevel"})";
  std::string added_tokens = R"([{"id": 260, "content": "<|end|>", "special": true}])";
};

std::string Json(const Parts& parts) {
  return absl::StrCat("{\"added_tokens\": ", parts.added_tokens, ", \"normalizer\": ", parts.normalizer,
                      ", \"pre_tokenizer\": ", parts.pre_tokenizer, ", \"post_processor\": ", parts.post_processor,
                      ", \"decoder\": ", parts.decoder, ", \"model\": {", parts.model_type, parts.model_options,
                      " \"vocab\": {", parts.vocab, "}, \"merges\": ", parts.merges, "}}");
}

absl::StatusOr<Tokenizer> Parse(const Parts& parts, const std::string& config = "") {
  return Tokenizer::Parse({Json(parts), config}, "m/tokenizer.json");
}

void RequireRefused(const Parts& parts, const std::string& what) {
  const absl::Status status = Parse(parts).status();
  INFO(status);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StartsWith(status.message(), "m/tokenizer.json: "));
  CHECK(absl::StrContains(status.message(), what));
}

}  // namespace

TEST_CASE("merges in both forms apply in order, and added tokens are found in the text") {
  const auto tokenizer = Parse({});
  REQUIRE(tokenizer.ok());
  CHECK(tokenizer->Encode("hello<|end|>hel").value() == std::vector<int32_t>{259, 260, 256, 'l'});
  CHECK(tokenizer->Encode("").value().empty());
  CHECK(tokenizer->vocab_size() == 261);
  CHECK(tokenizer->TokenToId("<|end|>") == 260);
  CHECK(tokenizer->TokenToId("nothing") == std::nullopt);
  CHECK(tokenizer->IdToToken(258) == "hell");
  CHECK(tokenizer->IdToToken(261).empty());
  CHECK(tokenizer->IdToToken(-1).empty());
  CHECK(tokenizer->IsSpecial(260));
  CHECK_FALSE(tokenizer->IsSpecial(259));
}

TEST_CASE("decoding joins bytes across tokens, mends what is no UTF-8 and skips special tokens on demand") {
  const auto tokenizer = Parse({});
  REQUIRE(tokenizer.ok());
  const std::vector<int32_t> ids = {259, 0xC3, 0xA9, 260, 0xE2, 0x82, 'x', 9999, -5};
  CHECK(tokenizer->Decode(ids) == "hello\xC3\xA9<|end|>\xEF\xBF\xBDx");
  CHECK(tokenizer->Decode(ids, true) == "hello\xC3\xA9\xEF\xBF\xBDx");
}

TEST_CASE("a megabyte without a space is encoded in bounded time, and comes back") {
  const auto tokenizer = Parse({});
  REQUIRE(tokenizer.ok());
  std::string text;
  while (text.size() < (1 << 20)) text += "hellhelhello";
  const std::vector<int32_t> ids = tokenizer->Encode(text).value();
  CHECK(tokenizer->Decode(ids) == text);
  CHECK(std::vector<int32_t>(ids.begin(), ids.begin() + 4) == std::vector<int32_t>{258, 256, 'l', 259});
}

TEST_CASE("tokens of a megabyte are tokens as any other") {
  Parts parts;
  const std::string added(1 << 20, 'x'), word(1 << 20, 'y');
  parts.added_tokens = absl::StrCat(R"([{"id": 260, "content": ")", added, R"("}])");
  const auto of_bytes = Parse(parts);
  REQUIRE(of_bytes.ok());
  CHECK(of_bytes->Encode("hello" + added + "x").value() == std::vector<int32_t>{259, 260, 'x'});
  parts.model_type = R"("type": "WordPiece", "unk_token": "[UNK]", "max_input_chars_per_word": 2000000,)";
  parts.vocab = absl::StrCat(R"("[UNK]": 0, ")", word, R"(": 1, "y": 2, "##y": 3)");
  parts.pre_tokenizer = "null";
  parts.decoder = "null";
  parts.added_tokens = "[]";
  const auto of_pieces = Parse(parts);
  INFO(of_pieces.status());
  REQUIRE(of_pieces.ok());
  CHECK(of_pieces->Encode(word + "y").value() == std::vector<int32_t>{1, 3});
}

TEST_CASE("short words and long ones merge alike") {
  const auto tokenizer = Parse({});
  REQUIRE(tokenizer.ok());
  const std::string unit = "hellohelhell";
  const std::vector<int32_t> once = tokenizer->Encode(unit).value();
  std::string text;
  std::vector<int32_t> expected;
  for (int i = 0; i < 40; ++i) {
    text += unit;
    expected.insert(expected.end(), once.begin(), once.end());
    CHECK(tokenizer->Encode(text).value() == expected);
  }
}

TEST_CASE("a pattern that backtracks without bound is an error that names file, pattern and place") {
  const auto tokenizer = Parse({.pre_tokenizer = R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern":
      {"Regex": "(?:l+x?)+[yz]|."}, "behavior": "Isolated"}, {"type": "ByteLevel", "use_regex": false}]})"});
  REQUIRE(tokenizer.ok());
  CHECK(tokenizer->Encode("lly").ok());
  // Each way to cut this run into parts is tried, 2^59 of them.
  const std::string run(60, 'l');
  const absl::Status status = tokenizer->Encode("<|end|>he" + run + "\nhe").status();
  INFO(status);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StartsWith(status.message(),
                         "m/tokenizer.json: the pattern '(?:l+x?)+[yz]|.' fails at byte 2 of a text of "
                         "65 bytes, at 'llllllllllllllllllllllllllllllllllllllll...': match limit"));
  CHECK(
      absl::StrContains(status.message(), "shorten the text there, or give the tokenizer a pattern that tries fewer"));
  const ChatTemplate::Rendered rendered{"llx" + run, {{3, 63}}};
  CHECK(EncodeChat(*tokenizer, rendered).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("tokenizer_config.json gives the special tokens in both forms and the default chat template") {
  const auto tokenizer = Parse({}, R"({"eos_token": {"content": "<|end|>", "lstrip": false}, "bos_token": "hello",
    "pad_token": null, "chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})");
  REQUIRE(tokenizer.ok());
  CHECK(tokenizer->eos_token() == "<|end|>");
  CHECK(tokenizer->eos_id() == 260);
  CHECK(tokenizer->bos_token() == "hello");
  CHECK(tokenizer->pad_token().empty());
  CHECK(tokenizer->chat_template() == "D");
  CHECK(Parse({}, R"({"eos_token": "</s>"})")->eos_id() == 261);  // a new one, behind all others
  const absl::Status broken = Parse({}, R"({"eos_token": )").status();
  CHECK(broken.code() == absl::StatusCode::kDataLoss);
  CHECK(absl::StrContains(broken.message(), "tokenizer_config.json"));
  CHECK_FALSE(Parse({}, R"({"chat_template": [{"name": "rag", "template": "R"}]})").ok());
}

TEST_CASE("a folder gives its tokenizer, and chat_template.jinja goes before the config's template") {
  const std::filesystem::path folder = std::filesystem::path(BuildFolder()) / "text_tokenizer_folder";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tokenizer.json") << Json({});
  std::ofstream(folder / "tokenizer_config.json") << R"({"chat_template": "old"})";
  std::ofstream(folder / "chat_template.jinja") << "new";
  const auto tokenizer = Tokenizer::Load(folder.string());
  REQUIRE(tokenizer.ok());
  CHECK(tokenizer->chat_template() == "new");
  std::filesystem::remove_all(folder);
  const absl::Status missing = Tokenizer::Load(folder.string()).status();
  CHECK(missing.code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(missing.message(), "tokenizer.json"));
}

TEST_CASE("a folder with another kind of tokenizer says which it is") {
  const std::filesystem::path folder = std::filesystem::path(BuildFolder()) / "text_other_tokenizer";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "vocab.json") << "{}";
  const absl::Status status = Tokenizer::Load(folder.string()).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(status.message(), "only vocab.json (the slow form of BPE)"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("what is not supported is refused by name, with what is supported") {
  RequireRefused({.model_type = R"("type": "Other",)"},
                 "model 'Other' is not supported; supported: BPE, WordPiece, WordLevel, Unigram");
  RequireRefused({.model_type = R"("type": "WordPiece",)"}, "a WordPiece of ByteLevel's bytes is not supported");
  RequireRefused({.model_options = R"("dropout": 0.1,)"}, "dropout");
  RequireRefused({.model_options = R"("continuing_subword_prefix": "##",)"}, "continuing_subword_prefix");
  RequireRefused({.model_options = R"("end_of_word_suffix": "</w>",)"}, "end_of_word_suffix");
  RequireRefused({.vocab = R"("h": 0)", .merges = "[]", .model_options = R"("byte_fallback": true,)"}, "byte_fallback");
  RequireRefused({.normalizer = R"({"type": "ByteLevel"})"}, "normalizer 'ByteLevel'");
  RequireRefused({.pre_tokenizer = R"({"type": "UnicodeScripts"})"}, "pre_tokenizer 'UnicodeScripts'");
  RequireRefused({.decoder = R"({"type": "CTC"})"}, "decoder 'CTC'");
  RequireRefused({.post_processor = R"({"type": "Other"})"}, "post_processor 'Other'");
}

TEST_CASE("a pattern that cannot be matched as Oniguruma matches it is refused, with the place and what to do") {
  for (const auto& [pattern, what] : std::vector<std::pair<std::string, std::string>>{
           {"a(b", "'(b' at character 2 of the pattern is a group without its ')'"},
           {"(*LIMIT_MATCH=1)a", "'(*' at character 1 of the pattern is a callout, which is not supported; write \\*"},
           {"\u4f60(?~ab)", "'(?~' at character 2 of the pattern is not supported; there are groups,"},
           {"(?<=a+)b", "look-behind for texts of several lengths, which is not supported; write one alternative for"},
           {"[a-z&&[^a]", "'[a-z&&[^a]' at character 1 of the pattern is a class without its ']'"},
           {"[\\\\d-z]", "'-z' at character 4 of the pattern behind a class is no range; write \\-"},
           {"\\\\p{InArrows}", "'\\p{InArrows}' at character 1 of the pattern is no property that is supported; there"},
           {"(?i:ss)", "'s' at character 6 of the pattern without case, with what stands before it, also matches"},
           {"a" + std::string(30, '*'), "has too many counts behind it"},
           {std::string(200, '(') + std::string(200, ')'), "is within more than 100 groups"},
           {std::string(60, '[') + "a" + std::string(60, ']'), "is nested too deep"}}) {
    RequireRefused({.pre_tokenizer = absl::StrCat(R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern":
      {"Regex": ")",
                                                  pattern, R"("}, "behavior": "Isolated"}, {"type": "ByteLevel"}]})")},
                   what);
  }
}

TEST_CASE("contents that make no sense are refused") {
  RequireRefused({.model_options = R"("unk_token": "<unk>",)"}, "unk_token '<unk>'");
  RequireRefused({.normalizer = R"({"type": "Prepend"})"}, "Prepend has no string 'prepend'");
  RequireRefused({.normalizer = R"({"type": "BertNormalizer", "lowercase": 1})"}, "'lowercase'");
  RequireRefused({.normalizer = R"({"type": "Replace", "pattern": "a", "content": ""})"}, "Replace's pattern");
  RequireRefused({.pre_tokenizer = R"({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Other"})"}, "'Other'");
  RequireRefused({.pre_tokenizer = R"({"type": "Metaspace", "replacement": "ab"})"}, "not one character");
  RequireRefused({.pre_tokenizer = R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false,
                                       "prepend_scheme": "first"})"},
                 "prepend_scheme");
  RequireRefused({.decoder = R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})"}, "start");
  RequireRefused({.post_processor = R"({"type": "BertProcessing"})"}, "'cls' is not [token, id]");
  RequireRefused({.post_processor = R"({"type": "TemplateProcessing"})"}, "'single' and 'pair'");
  RequireRefused(
      {.post_processor = R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id":
                                        0}}], "pair": []})"},
      "no special token '<s>'");
  RequireRefused({.post_processor = R"({"type": "RobertaProcessing", "cls": ["a", 4000000000], "sep": ["b", 2]})"},
                 "cls");
  RequireRefused({.merges = R"(["h e", "x yz"])"}, "'yz'");
  RequireRefused({.merges = R"(["h e", "h l"])"}, "'hl'");
  RequireRefused({.merges = R"(["h"])"}, "merge 0");
  RequireRefused({.merges = R"([["h", 5]])"}, "merge 0");
  RequireRefused({.merges = R"({"h": "e"})"}, "merges");
  RequireRefused({.vocab = R"("a": 1, "b": 1)", .merges = "[]"}, "id 1 belongs to two tokens");
  RequireRefused({.vocab = R"("a": -1)", .merges = "[]"}, "'a'");
  RequireRefused({.vocab = R"("a": 4000000000)", .merges = "[]"}, "'a'");
  RequireRefused({.vocab = R"("a": "1")", .merges = "[]"}, "'a'");
  RequireRefused({.added_tokens = R"([{"id": 3, "content": "hello"}])"}, "two ids");
  RequireRefused({.added_tokens = R"([{"id": 3, "content": "<x>"}])"}, "id 3 where 260 follows");
  RequireRefused({.added_tokens = R"([{"id": 261, "content": "<x>"}])"}, "may leave no gap");
  RequireRefused({.added_tokens = R"([{"id": 3}])"}, "content");
  RequireRefused({.added_tokens = R"([{"id": 300, "content": "<x>", "special": "yes"}])"}, "'special'");
  RequireRefused({.added_tokens = "7"}, "added_tokens");
}

TEST_CASE("a Unigram model whose tokens make no sense is refused") {
  const auto message = [](const std::string& model) {
    return std::string(
        Tokenizer::Parse({"{\"model\": {\"type\": \"Unigram\", " + model + "}}"}, "t.json").status().message());
  };
  CHECK(absl::StrContains(message(R"("vocab": {}, "unk_id": 0)"), "no list 'vocab'"));
  CHECK(absl::StrContains(message(R"("vocab": [["a", 0.5], ["b"]], "unk_id": 0)"), "token 1 is not [text, number]"));
  CHECK(absl::StrContains(message(R"("vocab": [["a", 0.5]], "unk_id": 1)"),
                          "unk_id is 1, and the vocabulary has 1 tokens"));
  CHECK(absl::StrContains(message(R"("vocab": [["a", 0.5]], "unk_id": null)"), "unk_id"));
  CHECK(absl::StrContains(message(R"("vocab": [], "unk_id": 0)"), "has 0 tokens"));
}

TEST_CASE("a precompiled_charsmap that is none is damaged") {
  const auto status = [](const std::string& base64) {
    return Parse({.normalizer = R"({"type": "Precompiled", "precompiled_charsmap": ")" + base64 + "\"}"}).status();
  };
  CHECK(absl::StrContains(status("?").message(), "not base64"));
  for (const char* bytes : {"", "AAAA", "/////w==", "BAAAAA=="}) {  // nothing, 3 bytes, a size beyond, a trie cut off
    INFO(bytes << ": " << status(bytes));
    CHECK(status(bytes).code() == absl::StatusCode::kDataLoss);
    CHECK(absl::StrContains(status(bytes).message(), "hold no trie"));
  }
  // A trie of one unit whose children lie beyond it: no text has an entry.
  const auto tokenizer = Parse({.normalizer = R"({"type": "Precompiled", "precompiled_charsmap": "BAAAAAD8//8="})"});
  REQUIRE(tokenizer.ok());
  CHECK(tokenizer->Encode("hello").value() == std::vector<int32_t>{259});
}

TEST_CASE("damaged files are named as damaged, wherever they are cut") {
  const std::string whole = Json({});
  const auto parse = [](const std::string& text) { return Tokenizer::Parse({text}, "t.json").status(); };
  for (size_t size = 0; size < whole.size(); size += 7) {
    CHECK(parse(whole.substr(0, size)).code() == absl::StatusCode::kDataLoss);
  }
  CHECK(parse("[1, 2]").code() == absl::StatusCode::kInvalidArgument);
  CHECK(parse("{}").code() == absl::StatusCode::kInvalidArgument);
  CHECK(parse("\xff\xfe{}").code() == absl::StatusCode::kDataLoss);
  const absl::Status deep = parse(std::string(1000000, '[') + std::string(1000000, ']'));
  CHECK(absl::StrContains(deep.message(), "nested"));
  CHECK_FALSE(parse(absl::StrReplaceAll(whole, {{"\"BPE\"", std::string(40, '[') + std::string(40, ']')}})).ok());
}

TEST_CASE("two tokenizers are the same, or differ from a first id on") {
  const auto teacher = Parse({}), same = Parse({});
  CHECK(RequireSameTokenizer(*teacher, *same).ok());
  const auto other = Parse({.added_tokens = R"([{"id": 260, "content": "<|stop|>"}])"});
  const absl::Status status = RequireSameTokenizer(*teacher, *other);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(status.message(), "id 260 is '<|end|>'"));
  CHECK(absl::StrContains(status.message(), "'<|stop|>'"));
  const auto longer = Parse({.added_tokens = R"([{"id": 260, "content": "<|end|>"}, {"id": 261, "content": "<x>"}])"});
  CHECK(absl::StrContains(RequireSameTokenizer(*teacher, *longer).message(), "id 261 is no token"));
}

}  // namespace distill
