#include "libdistill/data/dataset.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

const std::string kFolder = std::string(DISTILL_BUILD_DIR) + "/data_dataset_test";

// A file of the test's folder, which goes away with it.
struct ChatFile {
  std::string path;
  ChatFile(const std::string& name, const std::string& contents) : path(kFolder + "/" + name) {
    std::filesystem::create_directories(kFolder);
    std::ofstream(path, std::ios::binary) << contents;
  }
  ~ChatFile() { std::filesystem::remove_all(kFolder); }
};

absl::StatusOr<ChatDataset> Load(const std::string& path, const std::string& chat_template = "chatml",
                                 const ChatDatasetOptions& options = {}) {
  const Tokenizer tokenizer = MakeByteTokenizer();
  return LoadChatDataset(path, tokenizer, *ChatTemplate::Create(chat_template, tokenizer), options);
}

// What the loss is taken on, as text.
std::string Targets(const TokenSample& sample) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < sample.ids.size(); ++i) {
    if (sample.is_target[i] != 0) ids.push_back(sample.ids[i]);
  }
  return MakeByteTokenizer().Decode(ids);
}

constexpr char kMessages[] =
    R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"},
 {"role": "assistant", "content": "Hello\n"}, {"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]})";
constexpr char kConversations[] =
    R"({"source": "x", "conversations": [{"from": "system", "value": "S"}, {"from": "human", "value": "Hi"},
 {"from": "gpt", "value": "Hello\n"}, {"from": "human", "value": "?"}, {"from": "gpt", "value": "!"}], "score": 5.2})";
constexpr char kAnswered[] =
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";

std::string Line(std::string row) {
  for (char& c : row) c = c == '\n' ? ' ' : c;
  return row + "\n";
}

void CheckFails(const std::string& contents, absl::StatusCode code, const std::string& what) {
  const ChatFile file("train.jsonl", contents);
  const absl::Status status = Load(file.path).status();
  INFO(status);
  CHECK(status.code() == code);
  CHECK(absl::StrContains(status.message(), what));
}

}  // namespace

TEST_CASE("both row forms become the same samples, with the loss on content and end-of-turn token") {
  const ChatFile file("chat.jsonl", Line(kMessages) + Line(kConversations));
  for (const auto& [name, first, second] :
       {std::tuple{"chatml", "Hello\n<|im_end|>", "!<|im_end|>"}, {"llama3", "Hello<|eot_id|>", "!<|eot_id|>"}}) {
    const auto dataset = Load(file.path, name);
    INFO(dataset.status());
    REQUIRE(dataset.ok());
    REQUIRE(dataset->tokens->size() == 2);
    CHECK(dataset->tokens->sample(0).ids == dataset->tokens->sample(1).ids);
    CHECK(dataset->tokens->sample(0).is_target == dataset->tokens->sample(1).is_target);
    CHECK(Targets(dataset->tokens->sample(0)) == absl::StrCat(first, second));
    CHECK(dataset->conversations[1][1].role == "user");
    CHECK(dataset->conversations[1][2].content == "Hello\n");
  }
}

TEST_CASE("rows without an answer are left out, counted and named by line") {
  const ChatFile file(
      "train.jsonl",
      absl::StrCat(kAnswered, "\n", R"({"messages": [{"role": "user", "content": "a"}]})", "\n\n",
                   R"({"conversations": []})", "\n", R"({"conversations": [{"from": "gpt", "value": " "}]})", "\n"));
  const auto dataset = Load(file.path);
  REQUIRE(dataset.ok());
  CHECK(dataset->tokens->size() == 1);
  CHECK(absl::StrContains(dataset->summary, "rows 4, used 1, without an answer 3 (first: "));
  CHECK(absl::StrContains(dataset->summary, "train.jsonl:2)"));
}

TEST_CASE("samples are cut at max_length, and dropped where no answer is left") {
  const ChatFile file("train.jsonl", absl::StrCat(kAnswered, "\n", Line(kMessages)));
  // "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n" has 20 tokens, the answer two.
  const auto dataset = Load(file.path, "chatml", {.split = "", .num_samples = 0, .max_length = 21});
  REQUIRE(dataset.ok());
  REQUIRE(dataset->tokens->size() == 1);
  CHECK(dataset->tokens->sample(0).ids.size() == 21);
  CHECK(Targets(dataset->tokens->sample(0)) == "b");
  CHECK(absl::StrContains(dataset->summary, "whose answers lie beyond max_length 1 (first: "));
  CHECK(absl::StrContains(dataset->summary, "train.jsonl:2)"));
  CHECK_FALSE(Load(file.path, "chatml", {.split = "", .num_samples = 0, .max_length = 20}).ok());
  CHECK_FALSE(Load(file.path, "chatml", {.split = "", .num_samples = 0, .max_length = 1}).ok());
}

TEST_CASE("a folder gives its split's files in order, and num_samples the first rows") {
  const ChatFile a("train-b.jsonl", R"({"messages": [{"role": "assistant", "content": "2"}]})");
  const ChatFile b("train-a.jsonl", R"({"messages": [{"role": "assistant", "content": "1"}]})");
  const ChatFile c("test.jsonl", R"({"messages": [{"role": "assistant", "content": "3"}]})");
  const auto contents = [](const absl::StatusOr<ChatDataset>& dataset) {
    std::string all;
    for (const auto& conversation : dataset->conversations) all += conversation[0].content;
    return all;
  };
  CHECK(contents(Load(kFolder, "chatml", {.split = "train"})) == "12");
  CHECK(contents(Load(kFolder, "chatml", {.split = "test"})) == "3");
  CHECK(contents(Load(kFolder)) == "312");
  CHECK(contents(Load(kFolder, "chatml", {.split = "", .num_samples = 2})) == "31");
  CHECK(absl::StrContains(Load(kFolder, "chatml", {.split = "valid"}).status().message(), "valid*.jsonl"));
}

TEST_CASE("bad rows are refused by file and line") {
  const std::string good = std::string(kAnswered) + "\n";
  const auto code = absl::StatusCode::kInvalidArgument;
  CheckFails(good + "{\"messages\": [\n", code, "train.jsonl:2: not valid JSON");
  CheckFails(good + "{\"messages\": \"\xff\"}", code, "train.jsonl:2: the line is not valid UTF-8");
  CheckFails(good + "{\"text\": \"a\"}", code, "train.jsonl:2: the row has neither 'messages'");
  CheckFails("7\n", code, "train.jsonl:1: the row has neither");
  CheckFails("{\"messages\": 7}\n", code, "train.jsonl:1: 'messages' is no list");
  CheckFails("{\"messages\": [7]}\n", code, "train.jsonl:1: message 1: is no object");
  CheckFails(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant"}]})", code,
             "train.jsonl:1: message 2: has no 'content'");
  CheckFails(R"({"messages": [{"role": "user", "content": ["a"]}]})", code, "message 1: its 'content' is no string");
  CheckFails(R"({"conversations": [{"from": "bard", "value": "a"}]})", code,
             "train.jsonl:1: message 1: unknown role 'bard'; known: system");
}

TEST_CASE("a template's refusal names the row") {
  const ChatFile file("train.jsonl", absl::StrCat(kAnswered, "\n"));
  const absl::Status status = Load(file.path, "{{ raise_exception('no') }}").status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(status.message(), "train.jsonl:1: chat_template: line 1"));
}

TEST_CASE("missing, empty and remote data sets are refused") {
  CheckFails("", absl::StatusCode::kInvalidArgument, "nothing is left to train on");
  CheckFails("{\"messages\": []}\n", absl::StatusCode::kInvalidArgument, "without an answer 1");
  CHECK(Load(kFolder + "/none.jsonl").status().code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(Load("s3://bucket/train.jsonl").status().message(), "s3:// paths are not supported yet"));
}

}  // namespace distill
