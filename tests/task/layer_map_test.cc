#include "libdistill/task/layer_map.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

using Pairs = std::vector<std::pair<int64_t, int64_t>>;

Pairs PairsOf(const std::string& text, int64_t student, int64_t teacher) {
  const auto parsed = ParseLayerMap(text, student, teacher);
  INFO(parsed.status());
  REQUIRE(parsed.ok());
  Pairs pairs;
  for (const LayerPair& pair : *parsed) pairs.emplace_back(pair.student, pair.teacher);
  return pairs;
}

TEST_CASE("a map of layers names pairs, and without one layers as high are paired") {
  CHECK(PairsOf("1:2,2:4", 2, 4) == Pairs{{1, 2}, {2, 4}});
  CHECK(PairsOf(" 0 : 0 , 2:3", 2, 4) == Pairs{{0, 0}, {2, 3}});
  CHECK(PairsOf("", 3, 6) == Pairs{{1, 2}, {2, 4}, {3, 6}});
  CHECK(PairsOf("", 4, 6) == Pairs{{1, 2}, {2, 3}, {3, 5}, {4, 6}});
  CHECK(PairsOf("", 2, 1) == Pairs{{1, 1}, {2, 1}});
}

TEST_CASE("a map that no models have is refused with the pair") {
  for (const auto& [text, named] :
       {std::pair("1:2,", "\"\" in \"1:2,\" is no pair"), std::pair("1", "no pair"), std::pair("1:2:3", "no pair"),
        std::pair("a:1", "\"a:1\""), std::pair("3:1", "student has layers 0"), std::pair("1:5", "teacher has layers 0"),
        std::pair("-1:2", "student has")}) {
    const absl::Status status = ParseLayerMap(text, 2, 4).status();
    INFO(text << ": " << status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), "layer_map"));
    CHECK(absl::StrContains(status.message(), named));
  }
}

}  // namespace
}  // namespace distill
