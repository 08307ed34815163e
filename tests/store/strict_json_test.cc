#include "libdistill/store/strict_json.h"

#include <string>

#include "absl/strings/match.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

TEST_CASE("plain JSON passes, nesting up to the limit included") {
  CHECK(CheckJson(R"({"a": [1, 2.5, null, true, "x"], "b": {"a": {}}})", 3).ok());
  CHECK(CheckJson("[[[]]]", 3).ok());
  CHECK(CheckJson(R"([{"a":1},{"a":2}])", 3).ok());  // one key in two objects
}

TEST_CASE("deep nesting, keys given twice and broken text are DataLoss") {
  const auto fails = [](const std::string& text, const std::string& message) {
    const absl::Status status = CheckJson(text, 3);
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kDataLoss);
    CHECK(absl::StrContains(status.message(), message));
  };
  fails("[[[[]]]]", "deeper than 3");
  fails(std::string(10'000'000, '['), "deeper than 3");
  fails(R"({"a":{"b":1,"c":2,"b":3}})", "\"b\" is given twice");
  fails("{\n\"a\": 1,\n}", "line 3");
  fails("", "no valid JSON");
  fails("{} {}", "no valid JSON");
  fails("{\"a\": 1e999}", "no valid JSON");
}

}  // namespace
}  // namespace distill
