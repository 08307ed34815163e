#include "libdistill/data/text_dataset.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/data/chat_files.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

constexpr char kEndText[] = "<|eot_id|>";  // of the tokenizer below

absl::StatusOr<TextDataset> Load(const std::string& path, const TextDatasetOptions& options,
                                 const std::string& eos_token = kEndText) {
  return LoadTextDataset(path, ByteTokenizer(eos_token), options);
}

// The samples as text, each token of which is a target.
std::vector<std::string> TextsOf(const TextDataset& data) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < data.tokens->size(); ++i) {
    const TokenSample sample = TokensOf(*data.tokens, i);
    CHECK(sample.is_target == std::vector<uint8_t>(sample.ids.size(), 1));
    CHECK(data.tokens->Length(i).value() == static_cast<int64_t>(sample.ids.size()));
    texts.push_back(ByteTokenizer().Decode(sample.ids));
  }
  return texts;
}

void CheckError(const absl::Status& status, absl::StatusCode code, const std::string& what) {
  INFO(status);
  CHECK(status.code() == code);
  CHECK(absl::StrContains(status.message(), what));
}

using Texts = std::vector<std::string>;

TEST_CASE("a text is a sample that ends with the end of text, cut at max_length") {
  const TempFolder files;
  const std::string path = files.Write("t.jsonl", R"({"text":"abc"}
{"text":""}

{"text":"a longer one","source":7}
)");
  const auto data = Load(path, {.max_length = 6});
  REQUIRE(data.ok());
  CHECK(TextsOf(*data) == Texts{"abc<|eot_id|>", "a long"});
  CHECK(data->summary == "rows 3, used 2, too short 1 (first: t.jsonl:2), cut to max_length 6 1");
  CHECK(TextsOf(*Load(path, {.num_samples = 1})) == Texts{"abc<|eot_id|>"});
  CHECK(TextsOf(*Load(path, {}, "")) == Texts{"abc", "a longer one"});
}

TEST_CASE("in blocks all texts follow one another, none is cut off, and the last block is what is left") {
  const TempFolder files;
  const std::string path = files.Write("t.jsonl", R"({"page":"abc"}
{"page":"defghij"}
{"page":"k"}
)");
  const TextDatasetOptions options{.column = "page", .max_length = 5, .form = TextForm::kBlocks};
  const auto data = Load(path, options);
  REQUIRE(data.ok());
  CHECK(TextsOf(*data) == Texts{"abc<|eot_id|>d", "efghi", "j<|eot_id|>k<|eot_id|>"});
  CHECK(data->summary == "rows 3, used 3");
  TextDatasetOptions two = options;
  two.num_samples = 2;
  CHECK(TextsOf(*Load(path, two)) == Texts{"abc<|eot_id|>d", "efghi"});
  TextDatasetOptions seven = options;
  seven.max_length = 7;  // 14 tokens: nothing is left
  CHECK(TextsOf(*Load(path, seven)) == Texts{"abc<|eot_id|>def", "ghij<|eot_id|>k<|eot_id|>"});
}

TEST_CASE("what is wrong with a text file is said with file and line, or with what to do") {
  const TempFolder files;
  const std::string path = files.Write("t.jsonl", "{\"text\":\"abc\"}\n{\"body\":\"abc\"}\n");
  CheckError(Load(path, {}).status(), absl::StatusCode::kInvalidArgument,
             path + ":2: the field 'text' is missing; the row has 'body'");
  CheckError(Load(files.Write("n.jsonl", "{\"text\":7}\n"), {}).status(), absl::StatusCode::kInvalidArgument,
             "n.jsonl:1: 'text' is not a string");
  CheckError(Load(files.Write("l.jsonl", "[]\n"), {}).status(), absl::StatusCode::kInvalidArgument,
             "l.jsonl:1: the row is not a JSON object");
  CheckError(Load(files.Write("e.jsonl", "{\"text\":\"\"}\n"), {}).status(), absl::StatusCode::kInvalidArgument,
             "nothing is left to train on: rows 1, used 0, too short 1 (first: e.jsonl:1)");
  CheckError(Load(files.path() + "/none.jsonl", {}).status(), absl::StatusCode::kNotFound, "none.jsonl");
  CheckError(Load(path, {.form = TextForm::kBlocks}, "").status(), absl::StatusCode::kInvalidArgument,
             "need an eos_token");
  CheckError(Load(path, {.max_length = 1}).status(), absl::StatusCode::kInvalidArgument, "max_length is 1");
  CheckError(Load(path, {.num_samples = -1}).status(), absl::StatusCode::kInvalidArgument, "num_samples is -1");
}

}  // namespace
}  // namespace distill
