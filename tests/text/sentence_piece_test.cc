// A tokenizer.model alone; what AutoTokenizer makes of good ones is compared in text_golden_test.cc.
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/text/tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

// Protobuf's wire format, by hand: https://protobuf.dev/programming-guides/encoding.
std::string Number(int field, uint64_t value) {
  std::string bytes;
  for (uint64_t rest : {uint64_t{static_cast<uint64_t>(field) << 3}, value}) {
    for (; rest >= 0x80; rest >>= 7) bytes.push_back(static_cast<char>(rest | 0x80));
    bytes.push_back(static_cast<char>(rest));
  }
  return bytes;
}

std::string Bytes(int field, const std::string& value) {
  std::string head = Number(field, value.size());
  head[0] = static_cast<char>(head[0] | 2);
  return head + value;
}

std::string Piece(const std::string& text, float score = 0, int type = 1) {
  std::string bits(sizeof(score), '\0');
  std::memcpy(bits.data(), &score, sizeof(score));
  return Bytes(1, Bytes(1, text) + static_cast<char>(2 << 3 | 5) + bits + Number(3, type));
}

const std::string kFirst = Piece("<unk>", 0, 2) + Piece("<s>", 0, 3) + Piece("</s>", 0, 3);

// `algorithm`: 1 is unigram, 2 bpe, 3 word, 4 char.
std::string Model(const std::string& pieces, int algorithm = 2, const std::string& more = "") {
  return pieces + Bytes(2, Number(3, algorithm) + more);
}

absl::StatusOr<Tokenizer> LoadModel(const std::string& bytes, const std::string& tokenizer_config = "{}") {
  const TempFolder folder;
  folder.Write("tokenizer.model", bytes);
  folder.Write("tokenizer_config.json", tokenizer_config);
  CHECK(Tokenizer::IsIn(folder.path()));
  return Tokenizer::Load(folder.path());
}

}  // namespace

TEST_CASE("a tokenizer.model alone is a tokenizer: BPE, by the order of its pieces") {
  const auto tokenizer = LoadModel(Model(kFirst + Piece("ab") + Piece("abc") + Piece("bc") + Piece("a") + Piece("b") +
                                         Piece("c") + Piece("\xE2\x96\x81")));
  INFO(tokenizer.status());
  REQUIRE(tokenizer.ok());
  CHECK(tokenizer->Encode("abc bc</s>").value() == std::vector<int32_t>{4, 9, 5, 2});
  CHECK(tokenizer->Decode({4, 9, 5}) == "abc bc");
  CHECK(tokenizer->eos_token() == "</s>");
  CHECK(tokenizer->vocab_size() == 10);
}

TEST_CASE("a tokenizer.model that makes no sense is refused, with what is wrong") {
  struct Case {
    std::string model, config, wanted;
  };
  const std::string good = Model(kFirst + Piece("a"));
  const std::string unigram = Model(kFirst + Piece("a"), 1);
  const Case cases[] = {
      {"", "{}", "no SentencePiece model, or one that is cut off"},
      {"IQ== 0\nIg== 1\n", "{}", "no SentencePiece model"},  // tiktoken's form
      {good.substr(0, good.size() - 1), "{}", "or one that is cut off"},
      {Model("", 2), "{}", "no SentencePiece model"},
      {Model(kFirst, 9), "{}", "of the unknown type 9"},
      {Model(kFirst, 3), "{}", "of type word is not supported; supported: unigram, bpe"},
      {Model(kFirst, 4), "{}", "of type char is not supported"},
      {Model(kFirst + Piece("a", 0, 9)), "{}", "piece 3 is of the unknown type 9"},
      {Model(kFirst + Piece("a") + Piece("a")), "{}", "pieces 3 and 4 are both 'a'"},
      {Model(kFirst + Piece("")), "{}", "piece 3 is empty"},
      {Model(kFirst + Piece("\xFF")), "{}", "piece 3 is not UTF-8"},
      {Model(kFirst + Piece("a", std::numeric_limits<float>::quiet_NaN()), 1), "{}", "score that is not finite"},
      {Model(kFirst, 1, Number(40, 7)), "{}", "the unknown piece has id 7, and there are 3"},
      {good, R"({"tokenizer_class": "AlbertTokenizer"})", "'AlbertTokenizer' is not supported of a tokenizer.model"},
      {good, R"({"tokenizer_class": "T5Tokenizer"})", "of type bpe does not fit the tokenizer_class"},
      {unigram, R"({"tokenizer_class": "LlamaTokenizer"})", "of type unigram does not fit"},
      {unigram, R"({"tokenizer_class": "T5Tokenizer", "extra_ids": -1})", "'extra_ids' is no count of sentinels"},
      {good, R"({"add_bos_token": true, "bos_token": "<begin>"})", "has no piece '<begin>'"},
      {good, R"({"legacy": 7})", "'legacy'"},
      {good, "[]", "tokenizer_config.json"},
  };
  for (const Case& bad : cases) {
    const absl::Status status = LoadModel(bad.model, bad.config).status();
    INFO(status << "\nwanted: " << bad.wanted);
    CHECK(!status.ok());
    CHECK(absl::StrContains(status.message(), bad.wanted));
    CHECK(absl::StrContains(status.message(), bad.config == "[]" ? "tokenizer_config.json" : "tokenizer.model"));
  }
}

}  // namespace distill
