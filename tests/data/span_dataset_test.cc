#include "libdistill/data/span_dataset.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

std::string Row(const std::string& context, const std::string& answer, int64_t start) {
  return absl::StrCat(R"({"id":"q1","question":"who","context":")", context, R"(","answers":{"text":[")", answer,
                      R"("],"answer_start":[)", start, "]}}\n");
}

// BERT's form of two texts, with 256 for [CLS] and 257 for [SEP].
Tokenizer PairTokenizer() {
  return ByteTokenizer("", R"({"type": "BertProcessing", "cls": ["<|im_start|>", 256], "sep": ["<|im_end|>", 257]})");
}

absl::StatusOr<SpanDataset> Load(const std::string& path, const SpanDatasetOptions& options = {}) {
  return LoadSpanDataset(path, PairTokenizer(), options);
}

template <typename T>
std::vector<T> ValuesOf(const Sample& sample, const std::string& name) {
  const auto values = sample.Get<T>(name);
  REQUIRE(values.ok());
  return {values->begin(), values->end()};
}

// What the context says at the tokens of "start" to "end".
std::string AnswerOf(const SpanDataset& data, const Sample& window) {
  const std::vector<int64_t> offsets = ValuesOf<int64_t>(window, "offsets");
  const int64_t start = ValuesOf<int64_t>(window, "start")[0], end = ValuesOf<int64_t>(window, "end")[0];
  if (offsets[2 * start] < 0) return "";
  const SpanRow& row = data.rows[ValuesOf<int64_t>(window, "row")[0]];
  return row.context.substr(offsets[2 * start], offsets[2 * end + 1] - offsets[2 * start]);
}

TEST_CASE("a question and its context are one window, with types, offsets and the answer's tokens") {
  const TempFolder files;
  const auto data = Load(files.Write("q.jsonl", Row("né Bo é", "Bo", 3)));
  INFO(data.status());
  REQUIRE(data.ok());
  CHECK(data->summary == "rows 1, windows 1");
  REQUIRE(data->windows->size() == 1);
  CHECK(data->windows->Length(0).value() == 15);
  const Sample window = data->windows->Read(0).value();
  CHECK(ValuesOf<int32_t>(window, "ids") ==
        std::vector<int32_t>{256, 'w', 'h', 'o', 257, 'n', 0xC3, 0xA9, ' ', 'B', 'o', ' ', 0xC3, 0xA9, 257});
  CHECK(ValuesOf<int32_t>(window, "token_types") == std::vector<int32_t>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(window.Find("offsets")->shape() == std::vector<int64_t>{15, 2});
  const std::vector<int64_t> offsets = ValuesOf<int64_t>(window, "offsets");
  CHECK(std::vector<int64_t>(offsets.begin() + 8, offsets.begin() + 14) == std::vector<int64_t>{-1, -1, 0, 1, 1, 3});
  CHECK(std::vector<int64_t>(offsets.end() - 4, offsets.end()) == std::vector<int64_t>{7, 9, -1, -1});
  CHECK(ValuesOf<int64_t>(window, "start")[0] == 9);
  CHECK(ValuesOf<int64_t>(window, "end")[0] == 10);
  CHECK(AnswerOf(*data, window) == "Bo");
  CHECK(data->rows[0].id == "q1");
  CHECK(data->rows[0].question == "who");
  CHECK(data->rows[0].answers == std::vector<std::string>{"Bo"});
}

TEST_CASE("a long context has windows that overlap by the stride, and the answer where it is whole") {
  const TempFolder files;
  // Windows of 6 characters of the context, every 4.
  const auto data =
      Load(files.Write("q.jsonl", Row("0123456789abcdefg", "89", 8)), {.windows = {.max_length = 12, .stride = 2}});
  REQUIRE(data.ok());
  CHECK(data->summary == "rows 1, windows 4");
  std::vector<std::string> contexts, answers;
  for (int64_t i = 0; i < data->windows->size(); ++i) {
    const Sample window = data->windows->Read(i).value();
    CHECK(window.id == i);
    const std::vector<int32_t> ids = ValuesOf<int32_t>(window, "ids");
    contexts.emplace_back(ids.begin() + 5, ids.end() - 1);
    answers.push_back(AnswerOf(*data, window));
  }
  CHECK(contexts == std::vector<std::string>{"012345", "456789", "89abcd", "cdefg"});
  CHECK(answers == std::vector<std::string>{"", "89", "89", ""});
  CHECK(ValuesOf<int64_t>(data->windows->Read(0).value(), "start")[0] == 0);
}

TEST_CASE("windows are counted before they are made, and more than most_windows refused") {
  const Tokenizer tokenizer = PairTokenizer();
  for (const int64_t characters : {1, 5, 6, 7, 10, 11, 100}) {
    const std::string context(static_cast<size_t>(characters), 'x');
    for (const int64_t stride : {0, 2, 5}) {
      WindowOptions options = {.max_length = 12, .stride = stride};
      const auto windows = WindowsOf(tokenizer, "who", context, options);
      REQUIRE(windows.ok());
      options.most_windows = static_cast<int64_t>(windows->size());
      CHECK(WindowsOf(tokenizer, "who", context, options)->size() == windows->size());
      if (--options.most_windows == 0) continue;
      const absl::Status refused = WindowsOf(tokenizer, "who", context, options).status();
      INFO(refused);
      CHECK(absl::IsInvalidArgument(refused));
      CHECK(absl::StrContains(refused.message(), absl::StrCat("which take ", windows->size(), " windows")));
    }
  }
}

TEST_CASE("a question without an answer is kept and counted, and takes its place as its id") {
  const TempFolder files;
  const auto data =
      Load(files.Write("q.jsonl", R"({"question":" a","context":"b","answers":{"text":[],"answer_start":[]}})"));
  REQUIRE(data.ok());
  CHECK(data->summary == "rows 1, windows 1, without an answer 1 (first: q.jsonl:1)");
  CHECK(data->rows[0].id == "q.jsonl:1");
  CHECK(data->rows[0].answers.empty());
  CHECK(ValuesOf<int64_t>(data->windows->Read(0).value(), "start")[0] == 0);
  CHECK(ValuesOf<int32_t>(data->windows->Read(0).value(), "ids") == std::vector<int32_t>{256, 'a', 257, 'b', 257});
}

TEST_CASE("a question that cannot be used is refused with file and line") {
  const TempFolder files;
  const auto refuses = [&](const std::string& row, const SpanDatasetOptions& options, const std::string& what) {
    const std::string path = files.Write("q.jsonl", row);
    const absl::Status status = Load(path, options).status();
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), path + ":1: " + what));
  };
  refuses(Row("abc", "b", 2), {}, "answer 0, 'b', does not stand at character 2 of the context");
  refuses(Row("abc", "b", 99), {}, "answer 0, 'b', does not stand at character 99");
  refuses(Row("abc", "", 0), {}, "answer 0, '', does not stand");
  refuses(R"({"question":"a","context":"b"})", {}, "the field 'answers' is missing");
  refuses(R"({"question":"a","answers":{}})", {}, "the field 'context' is missing");
  refuses(R"({"question":"a","context":"b","answers":{"text":["b"],"answer_start":[]}})", {},
          "'answers' has 1 in 'text', but 0 in 'answer_start'");
  refuses(R"({"question":"a","context":"","answers":{"text":[],"answer_start":[]}})", {}, "the context has no tokens");
  refuses(Row("0123456789", "1", 1), {.windows = {.max_length = 8, .stride = 2}},
          "the question leaves too little room for the context: raise max_length, which is 8, or lower stride, which "
          "is 2");
  CHECK(absl::StrContains(Load(files.Write("e.jsonl", "\n")).status().message(), "the data set is empty"));
  CHECK(absl::StrContains(Load("x", {.windows = {.stride = -1}}).status().message(), "stride is -1"));
}

constexpr char kOfficial[] = R"({"version": "v2.0", "data": [
  {"title": "Towns", "paragraphs": [
    {"context": "Bo lives in Köln.", "qas": [
      {"id": "q1", "question": "Where?", "answers": [{"text": "Köln", "answer_start": 12}, {"text": "in Köln", "answer_start": 9}]},
      {"id": "q2", "question": "Since when?", "answers": [], "is_impossible": true,
       "plausible_answers": [{"text": "Bo", "answer_start": 0}]}]},
    {"context": "Al too.", "qas": [{"question": "Who?", "id": "q3", "answers": [{"text": "Al", "answer_start": 0}]}]}]},
  {"title": "None", "paragraphs": []}]})";

TEST_CASE("SQuAD's own file gives its questions in order, with all answers") {
  const TempFolder files;
  const auto data = Load(files.Write("dev.json", kOfficial));
  INFO(data.status());
  REQUIRE(data.ok());
  CHECK(data->summary ==
        "rows 3, windows 3, without an answer 1 (first: dev.json: article 1, paragraph 1, question 2)");
  CHECK(data->rows[0].answers == std::vector<std::string>{"Köln", "in Köln"});
  CHECK(AnswerOf(*data, data->windows->Read(0).value()) == "Köln");
  CHECK(data->rows[2].id == "q3");
  CHECK(data->rows[2].context == "Al too.");
  CHECK(Load(files / "dev.json", {.num_samples = 2})->rows.size() == 2);
}

TEST_CASE("rows in an object named data are read as well") {
  const TempFolder files;
  const std::string row = Row("abc", "b", 1);
  const auto data = Load(files.Write("rows.json", absl::StrCat("{\"data\": [", row, ",", row, "]}")));
  INFO(data.status());
  REQUIRE(data.ok());
  CHECK(data->rows.size() == 2);
}

TEST_CASE("what is wrong with a SQuAD file is said with article, paragraph and question") {
  const TempFolder files;
  const auto refuses = [&](const std::string& text, const std::string& what) {
    const std::string path = files.Write("dev.json", text);
    const absl::Status status = Load(path).status();
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), path + ": " + what));
  };
  const auto article = [](const std::string& paragraph) {
    return absl::StrCat(R"({"data": [{"title": "t", "paragraphs": [)", paragraph, "]}]}");
  };
  refuses("[1, 2]", "a .json file of questions is SQuAD's: an object whose 'data'");
  refuses("{\"data\": ", "not valid JSON");
  refuses("", "not valid JSON");
  refuses(" \n", "not valid JSON");
  refuses(R"({"data": [{"paragraphs": 7}]})", "article 1: 'paragraphs' is no list");
  refuses(article(R"({"qas": []})"), "article 1, paragraph 1: the field 'context' is missing");
  refuses(article(R"({"context": "a"})"), "article 1, paragraph 1: the field 'qas' is missing");
  refuses(article(R"({"context": "a", "qas": [{"id": "x", "question": "q", "answers": [{"text": "a"}]}]})"),
          "article 1, paragraph 1, question 1: the field 'answer_start' is missing");
  refuses(
      article(
          R"({"context": "ab", "qas": [{"id": "x", "question": "q", "answers": [{"text": "b", "answer_start": 0}]}]})"),
      "article 1, paragraph 1, question 1: answer 0, 'b', does not stand at character 0");
  refuses(article(""), "the data set is empty");
  const auto skipped = Load(files.Write("dev.json", article(R"({"context": "ab", "qas": [
      {"id": "x", "question": "q", "answers": 1},
      {"id": "y", "question": "q", "answers": [{"text": "b", "answer_start": 1}]}]})")),
                            {.rows = {.bad_rows = BadRows::kSkip}});
  REQUIRE(skipped.ok());
  CHECK(skipped->rows.size() == 1);
}

}  // namespace
}  // namespace distill
