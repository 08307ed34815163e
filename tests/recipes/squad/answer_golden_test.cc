// Answers beside those of the question-answering pipeline of transformers 4 (tests/golden/squad_transformers4.py).
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "examples/squad/answer.h"
#include "libdistill/store/files.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"

namespace distill {
namespace {

const std::string kGolden = GoldenFolder() + "/squad";

std::unique_ptr<SpanAnswerer> Answerer() {
  auto answerer = SpanAnswerer::Load(kGolden + "/model",
                                     {.windows = {.max_length = 64, .stride = 16}, .max_answer_length = 15}, c10::kCPU);
  INFO(answerer.status());
  REQUIRE(answerer.ok());
  return *std::move(answerer);
}

TEST_CASE("answers, their scores and places are those of transformers' pipeline") {
  const auto answerer = Answerer();
  const auto text = ReadFile(kGolden + "/answers.json");
  REQUIRE(text.ok());
  int64_t cases = 0;
  for (const auto& one : nlohmann::json::parse(*text)) {
    const auto answer = answerer->Answer(one["question"].get<std::string>(), one["context"].get<std::string>());
    INFO(one.dump() << answer.status());
    REQUIRE(answer.ok());
    CHECK(answer->score == Approx(one["score"].get<double>()).epsilon(1e-3));
    CHECK(answer->text == one["answer"].get<std::string>());
    CHECK(answer->start == one["start"].get<int64_t>());
    CHECK(answer->end == one["end"].get<int64_t>());
    ++cases;
  }
  CHECK(cases == 60);
}

TEST_CASE("what cannot be answered is said") {
  const auto answerer = Answerer();
  const auto refuses = [&](const std::string& question, const std::string& context, const std::string& what) {
    const absl::Status status = answerer->Answer(question, context).status();
    INFO(status);
    CHECK(absl::IsInvalidArgument(status));
    CHECK(absl::StrContains(status.message(), what));
  };
  refuses(" ", "Ada", "the question is empty");
  refuses("Who?", "\n\t", "the context is empty");
  refuses("Who?", "\xE2\x80\x8B", "the context has no tokens");
  std::string words;
  for (int i = 0; i < 70; ++i) words += "Ada ";
  refuses(words, "Ada", "the question leaves too little room");
  const absl::Status late = answerer->Answer("Who?", words, absl::InfinitePast()).status();
  CHECK(absl::IsDeadlineExceeded(late));
  CHECK(absl::StrContains(late.message(), "windows, of which 0 were read in time"));
}

}  // namespace
}  // namespace distill
