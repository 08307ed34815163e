#include "libdistill/comm/tuning_text.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/comm/default_costs.h"
#include "libdistill/core/field_text.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

TEST_CASE("the log says what a tree that is asked for is taken for, and that all-reduces follow the table") {
  const CommLayout layout = {4, 4, 1};
  const std::string table = CommTuning().Describe(CommOperation::kAllReduce, layout);
  for (const AlgorithmPreference tree : {AlgorithmPreference::kBinomialTree, AlgorithmPreference::kBinaryTree}) {
    CHECK(DescribeAlgorithms(CommTuning(tree), nullptr, layout) ==
          absl::StrCat("all-reduce over the fabric: ", table, " (comm_algorithm ", FieldText(tree),
                       "); broadcast and reduce: ", FieldText(tree), "; costs: the built-in ones of tcp"));
  }
  CHECK(DescribeAlgorithms(CommTuning(), nullptr, layout) ==
        absl::StrCat("all-reduce over the fabric: ", table, " (comm_algorithm auto); costs: the built-in ones of tcp"));
  // Of two ranks the chain is the tree.
  CHECK(absl::StrContains(DescribeAlgorithms(CommTuning(AlgorithmPreference::kBinaryTree), nullptr, {2, 2, 1}),
                          "; broadcast and reduce: ring; "));
}

TEST_CASE("the log says whether calls go in two levels: never where flat is asked for") {
  const CommLayout layout = {8, 4, 2};
  const auto text = [&](AlgorithmPreference preference) {
    const CommTuning tuning(preference);
    return DescribeAlgorithms(tuning, &tuning, layout);
  };
  constexpr const char* kLevels = "all-reduce over the fabric: hierarchical, and in its lanes ";
  CHECK(absl::StartsWith(text(AlgorithmPreference::kAuto), kLevels));
  CHECK(absl::StartsWith(text(AlgorithmPreference::kRing), absl::StrCat(kLevels, "ring (comm_algorithm ring)")));
  CHECK(!absl::StrContains(text(AlgorithmPreference::kFlat), "hierarchical"));
}

TEST_CASE("where lanes carry GPUs' memory by a table of their own, the log names both, and levels by the ranks' one") {
  CostTable slow_memory;
  slow_memory.shared_memory.gigabytes_per_second = 0.01;
  CommTuning flat(AlgorithmPreference::kAuto), lane(AlgorithmPreference::kAuto);
  flat.UseWhereNoneWasGiven(slow_memory, "slow memory");
  lane.UseWhereNoneWasGiven(DefaultCostsOf({"efa", 50, true}).table, "efa as on P5");
  const CommLayout all = {8, 4, 2};
  const std::string text = DescribeAlgorithms(flat, &lane, all);
  INFO(text);
  const std::string levels = flat.Describe(CommOperation::kAllReduce, all);
  REQUIRE(levels != lane.Describe(CommOperation::kAllReduce, all));
  CHECK(absl::StartsWith(text,
                         absl::StrCat("all-reduce over the fabric: ", levels, ", and in its lanes ",
                                      lane.Describe(CommOperation::kAllReduce, {4, 4, 1}, /*flat_only=*/true), " (")));
  CHECK(absl::EndsWith(text, "; costs: the built-in ones of efa as on P5, and between all ranks of slow memory"));
}

}  // namespace
}  // namespace distill
