// Scores, decoded answers and windows beside those of SQuAD's official scripts and of transformers
// (tests/golden/squad_golden.py).
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "examples/squad/decode.h"
#include "examples/squad/predictions.h"
#include "examples/squad/score.h"
#include "libdistill/data/span_dataset.h"
#include "libdistill/store/files.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using Json = nlohmann::ordered_json;
const std::string kGolden = GoldenFolder() + "/squad";

Json Golden(const std::string& name) {
  const auto text = ReadFile(kGolden + "/" + name);
  REQUIRE(text.ok());
  return Json::parse(*text);
}

TEST_CASE("answers are normalised as the official script normalises them") {
  const Json cases = Golden("normalize.json");
  REQUIRE(cases.size() > 4000);
  for (const Json& one : cases) {
    INFO(one.dump());
    CHECK(NormalizeAnswer(one[0].get<std::string>()) == one[1].get<std::string>());
  }
}

TEST_CASE("F1 and exact match of a pair are those of both official scripts") {
  int64_t partly = 0;
  for (const Json& one : Golden("pairs.json")) {
    INFO(one.dump());
    const auto a = one[0].get<std::string>(), b = one[1].get<std::string>();
    CHECK(F1OfV1(a, b) == one[2].get<double>());
    CHECK(F1OfV2(a, b) == one[3].get<double>());
    CHECK(IsExactMatch(a, b) == one[4].get<bool>());
    partly += one[2].get<double>() > 0 && one[2].get<double>() < 1;
  }
  CHECK(partly > 100);
}

TEST_CASE("the figures of a data set are those of the official scripts, of HasAns and NoAns too") {
  for (const Json& one : Golden("scores.json")) {
    std::vector<JudgedAnswer> answers;
    for (size_t i = 0; i < one["golds"].size(); ++i) {
      answers.push_back({one["predictions"][i].get<std::string>(), one["golds"][i].get<std::vector<std::string>>(),
                         one["odds"][i].get<double>()});
    }
    const auto scores = one["v2"].get<bool>() ? ScoresOfV2(answers) : ScoresOfV1(answers);
    INFO(one.dump());
    REQUIRE(scores.size() == one["scores"].size());
    for (const auto& [name, value] : one["scores"].items()) {
      INFO(name);
      REQUIRE(scores.count(name) == 1);
      CHECK(scores.at(name) == Approx(value.get<double>()).epsilon(1e-12).margin(1e-12));
    }
  }
}

TEST_CASE("answers are decoded as run_qa.py decodes them") {
  int64_t empty = 0;
  for (const Json& one : Golden("decode.json")) {
    const DecodeOptions options = {.version_2_with_negative = one["version_2_with_negative"],
                                   .null_score_diff_threshold = one["null_score_diff_threshold"],
                                   .n_best_size = one["n_best_size"],
                                   .max_answer_length = one["max_answer_length"]};
    std::vector<std::vector<int64_t>> offsets;
    std::vector<WindowToDecode> windows;
    offsets.reserve(one["windows"].size());
    for (const Json& window : one["windows"]) {
      offsets.emplace_back();
      for (const Json& span : window["offsets"]) offsets.back().insert(offsets.back().end(), {span[0], span[1]});
      const auto start = window["start"].get<std::vector<float>>(), end = window["end"].get<std::vector<float>>();
      const auto scores = WindowScoresOf(ToBytes(BestOf(start, end, options.n_best_size)));
      REQUIRE(scores.ok());
      windows.push_back({*scores, offsets.back()});
    }
    const DecodedAnswer answer = Decode(one["context"].get<std::string>(), windows, options);
    INFO(one.dump());
    CHECK(answer.text == one["answer"].get<std::string>());
    CHECK(answer.null_odds == Approx(one["null_odds"].get<double>()).margin(1e-6));
    REQUIRE(answer.n_best.size() == one["n_best"].size());
    for (size_t i = 0; i < answer.n_best.size(); ++i) {
      const Json& expected = one["n_best"][i];
      CHECK(answer.n_best[i].text == expected["text"].get<std::string>());
      CHECK(answer.n_best[i].start_logit == expected["start_logit"].get<float>());
      CHECK(answer.n_best[i].end_logit == expected["end_logit"].get<float>());
      CHECK(answer.n_best[i].probability == Approx(expected["probability"].get<double>()).epsilon(1e-4).margin(1e-9));
    }
    empty += answer.text.empty();
  }
  CHECK(empty > 20);
}

TEST_CASE("a question's windows, and the answer in them, are those of transformers' tokenizer") {
  const auto tokenizer = Tokenizer::Load(kGolden + "/model");
  INFO(tokenizer.status());
  REQUIRE(tokenizer.ok());
  const testing::TempFolder files;
  int64_t several = 0, elsewhere = 0;
  for (const Json& one : Golden("windows.json")) {
    const Json row = {
        {"question", one["question"]},
        {"context", one["context"]},
        {"answers", {{"text", Json::array({one["answer"]})}, {"answer_start", Json::array({one["answer_start"]})}}}};
    const auto data = LoadSpanDataset(files.Write("row.jsonl", row.dump()), *tokenizer,
                                      {.windows = {.max_length = one["max_length"], .stride = one["stride"]}});
    INFO(one.dump() << data.status());
    REQUIRE(data.ok());
    REQUIRE(data->windows->size() == static_cast<int64_t>(one["windows"].size()));
    several += data->windows->size() > 1;
    for (int64_t i = 0; i < data->windows->size(); ++i) {
      const Json& expected = one["windows"][static_cast<size_t>(i)];
      const Sample window = data->windows->Read(i).value();
      const auto ids = window.Get<int32_t>("ids").value(), types = window.Get<int32_t>("token_types").value();
      CHECK(std::vector<int32_t>(ids.begin(), ids.end()) == expected["ids"].get<std::vector<int32_t>>());
      CHECK(std::vector<int32_t>(types.begin(), types.end()) == expected["types"].get<std::vector<int32_t>>());
      const auto offsets = window.Get<int64_t>("offsets").value();
      std::vector<int64_t> flat;
      for (const Json& span : expected["offsets"]) flat.insert(flat.end(), {span[0], span[1]});
      CHECK(std::vector<int64_t>(offsets.begin(), offsets.end()) == flat);
      CHECK(window.Get<int64_t>("start").value()[0] == expected["span"][0].get<int64_t>());
      CHECK(window.Get<int64_t>("end").value()[0] == expected["span"][1].get<int64_t>());
      elsewhere += expected["span"][0] == 0;
    }
  }
  CHECK(several > 30);
  CHECK(elsewhere > 20);
}

TEST_CASE("predictions are written as run_qa.py writes them") {
  const testing::TempFolder folder;
  const DecodedAnswer some = {.text = "Köln", .n_best = {{"Köln", 0.75, 1.5, 2}, {"", 0.25, 1, 1}}, .null_odds = -1.5};
  REQUIRE(WritePredictions(folder / "out", {{"b", some}, {"a", {.text = ""}}}, true) == absl::OkStatus());
  CHECK(folder.Read("out/predictions.json") == "{\n    \"b\": \"K\\u00f6ln\",\n    \"a\": \"\"\n}\n");
  CHECK(folder.Read("out/null_odds.json") == "{\n    \"b\": -1.5,\n    \"a\": 0.0\n}\n");
  const Json candidates = Json::parse(folder.Read("out/nbest_predictions.json"));
  CHECK(candidates["b"].dump() == R"([{"start_logit":1.5,"end_logit":2.0,"text":"Köln","probability":0.75},)"
                                  R"({"start_logit":1.0,"end_logit":1.0,"text":"","probability":0.25}])");
  CHECK(candidates["a"].empty());
}

TEST_CASE("bytes that are no scores of a window are refused") {
  const std::string bytes = ToBytes(BestOf(std::vector<float>{1, 2}, std::vector<float>{3, 4}, 2));
  CHECK(WindowScoresOf(bytes).ok());
  CHECK_FALSE(WindowScoresOf(bytes.substr(1)).ok());
  CHECK_FALSE(WindowScoresOf(bytes + "x").ok());
  CHECK_FALSE(WindowScoresOf("").ok());
}

}  // namespace
}  // namespace distill
