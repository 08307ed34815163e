// SQuAD as data sets of the hub have it: Parquet files whose answers are a struct of two lists.
#include <nlohmann/json.hpp>
#include <string>

#include "libdistill/data/span_dataset.h"
#include "libdistill/store/files.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"

namespace distill {
namespace {

const std::string kGoldenHub = GoldenFolder() + "/squad";

TEST_CASE("each split of a Parquet data set has its own questions, in order") {
  const auto tokenizer = Tokenizer::Load(kGoldenHub + "/model");
  REQUIRE(tokenizer.ok());
  const auto cases = nlohmann::json::parse(ReadFile(kGoldenHub + "/windows.json").value());
  size_t at = 0;
  for (const char* split : {"train", "validation"}) {
    const auto data = LoadSpanDataset(kGoldenHub + "/hub/plain_text", *tokenizer,
                                      {.split = split, .windows = {.max_length = 64, .stride = 16}});
    INFO(split << data.status());
    REQUIRE(data.ok());
    for (const SpanRow& row : data->rows) {
      CHECK(row.id == "id" + std::to_string(at));
      CHECK(row.question == cases[at]["question"].get<std::string>());
      CHECK(row.context == cases[at]["context"].get<std::string>());
      CHECK(row.answers == std::vector<std::string>{cases[at]["answer"].get<std::string>()});
      ++at;
    }
  }
  CHECK(at == cases.size());
}

}  // namespace
}  // namespace distill
