#include "libdistill/text/encoding.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "libdistill/text/tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using Offsets = std::vector<std::pair<int64_t, int64_t>>;

// A vocab.txt in which words stand at the lines of bert-base-uncased's.
class BertFolder {
 public:
  explicit BertFolder(const std::vector<std::pair<int, std::string>>& words) {
    std::vector<std::string> lines(30000);
    for (size_t i = 0; i < lines.size(); ++i) lines[i] = "[unused" + std::to_string(i) + "]";
    for (const auto& [line, word] : words) lines[line] = word;
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    folder.Write("vocab.txt", text);
  }

  Tokenizer Load() const {
    const auto tokenizer = Tokenizer::Load(folder.path());
    INFO(tokenizer.status());
    REQUIRE(tokenizer.ok());
    return *tokenizer;
  }

  testing::TempFolder folder;
};

const std::vector<std::pair<int, std::string>> kWords = {
    {0, "[PAD]"}, {100, "[UNK]"}, {101, "[CLS]"},  {102, "[SEP]"}, {103, "[MASK]"}, {1029, "?"},         {2003, "is"},
    {1999, "in"}, {1996, "the"},  {2088, "world"}, {4949, "map"},  {2073, "where"}, {26779, "himalaya"}, {2015, "##s"}};

}  // namespace

TEST_CASE("a bare vocab.txt is BERT's tokenizer") {
  const BertFolder folder(kWords);
  const Tokenizer tokenizer = folder.Load();
  const auto encoding = tokenizer.EncodeInput("where is Himalayas in the world map?");
  REQUIRE(encoding.ok());
  CHECK(encoding->ids == std::vector<int32_t>{101, 2073, 2003, 26779, 2015, 1999, 1996, 2088, 4949, 1029, 102});
  CHECK(encoding->offsets ==
        Offsets{{0, 0}, {0, 5}, {6, 8}, {9, 17}, {17, 18}, {19, 21}, {22, 25}, {26, 31}, {32, 35}, {35, 36}, {0, 0}});
  CHECK(encoding->words == std::vector<int32_t>{-1, 0, 1, 2, 2, 3, 4, 5, 6, 7, -1});
  CHECK(tokenizer.Decode(encoding->ids, true) == "where is himalayas in the world map?");
  CHECK(tokenizer.mask_token() == "[MASK]");
  CHECK(tokenizer.cls_token() == "[CLS]");
  CHECK(tokenizer.sep_token() == "[SEP]");
  CHECK(tokenizer.IsSpecial(103));
  const auto pair = tokenizer.EncodeInput("where", "the [MASK] map");
  REQUIRE(pair.ok());
  CHECK(pair->ids == std::vector<int32_t>{101, 2073, 102, 1996, 103, 4949, 102});
  CHECK(pair->type_ids == std::vector<int32_t>{0, 0, 0, 1, 1, 1, 1});
}

TEST_CASE("tokenizer_config.json says how a bare vocab.txt is used") {
  const BertFolder folder(kWords);
  folder.folder.Write("tokenizer_config.json", R"({"do_lower_case": false, "unk_token": {"content": "[unused1]"}})");
  CHECK(folder.Load().Encode("where Where").value() == std::vector<int32_t>{2073, 1});
}

TEST_CASE("a vocab.txt of another model is refused") {
  const testing::TempFolder folder;
  folder.Write("vocab.txt", "<s>\n</s>\n<unk>\n");
  const absl::Status status = Tokenizer::Load(folder.path()).status();
  INFO(status);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(status.message(), "vocab.txt: has no line '[CLS]'"));
}

TEST_CASE("options that leave no room for a text are refused with their numbers") {
  const BertFolder folder(kWords);
  const Tokenizer tokenizer = folder.Load();
  const auto refused = [&](const EncodeOptions& options, const std::string& what) {
    const absl::Status status = tokenizer.EncodeInput("the world map", "where is the map", options).status();
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), what));
  };
  refused({.max_length = 2}, "max_length is 2, and special tokens alone are 3");
  refused({.max_length = 5, .truncation = Truncation::kOnlyFirst}, "would be met only without the first text");
  refused({.max_length = 8, .truncation = Truncation::kOnlySecond, .stride = 2}, "stride is 2");
  const absl::Status alone =
      tokenizer.EncodeInput("the world map", {.max_length = 3, .truncation = Truncation::kOnlySecond}).status();
  CHECK(absl::StrContains(alone.message(), "there is no second text"));
  CHECK(absl::StrContains(tokenizer.EncodeInput("\xFF").status().message(), "not UTF-8"));
}

TEST_CASE("what is cut off of a context overlaps by the stride, as SQuAD's windows do") {
  const BertFolder folder(kWords);
  const auto encoding = folder.Load().EncodeInput(
      "where?", "the world is in the map", {.max_length = 8, .truncation = Truncation::kOnlySecond, .stride = 1});
  REQUIRE(encoding.ok());
  CHECK(encoding->ids == std::vector<int32_t>{101, 2073, 1029, 102, 1996, 2088, 2003, 102});
  REQUIRE(encoding->overflowing.size() == 2);
  CHECK(encoding->overflowing[0].ids == std::vector<int32_t>{101, 2073, 1029, 102, 2003, 1999, 1996, 102});
  CHECK(encoding->overflowing[1].offsets == Offsets{{0, 0}, {0, 5}, {5, 6}, {0, 0}, {16, 19}, {20, 23}, {0, 0}});
}

}  // namespace distill
