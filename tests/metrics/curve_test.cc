// What of a run's records a picture shows: points that stay when there are too many, and records that come back.
#include "libdistill/metrics/curve.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

constexpr int64_t kAll = 1 << 30;

std::vector<double> ValuesOf(const std::vector<CurvePoint>& points) {
  std::vector<double> values;
  for (const CurvePoint& point : points) values.push_back(point.value);
  return values;
}

bool IsInOrder(const std::vector<CurvePoint>& points) {
  return std::is_sorted(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
}

// sin(step), with a spike and a gap.
std::vector<CurvePoint> Waves(int steps) {
  std::vector<CurvePoint> points;
  for (int step = 1; step <= steps; ++step) points.push_back({static_cast<double>(step), std::sin(step)});
  points[static_cast<size_t>(steps) / 3].value = 50;
  points[static_cast<size_t>(steps) / 2].value = std::nan("");
  return points;
}

TEST_CASE("a curve that is thinned keeps its least and greatest values, its spikes, its gaps and its order") {
  const std::vector<CurvePoint> points = Waves(10000);
  const std::vector<CurvePoint> thinned = Thinned(points, 100);
  CHECK(thinned.size() <= 300);
  CHECK(thinned.size() >= 200);
  CHECK(IsInOrder(thinned));
  std::vector<double> values = ValuesOf(thinned);
  CHECK(std::erase_if(values, [](double value) { return std::isnan(value); }) == 1);
  CHECK(std::count(values.begin(), values.end(), 50) == 1);
  // In each range of 100 steps the least and greatest sines are near -1 and 1.
  for (size_t i = 0; i + 4 < values.size(); ++i) {
    CHECK(*std::min_element(values.begin() + static_cast<int64_t>(i), values.begin() + static_cast<int64_t>(i) + 4) <
          -0.99);
  }
  CHECK(ValuesOf(Thinned({{1, 2}, {2, 3}}, 100)) == std::vector<double>{2, 3});
  CHECK(Thinned(std::vector<CurvePoint>(50, {3, 1}), 10).size() == 1);  // all at one step
}

TEST_CASE("the memory of a curve is bounded, however long a run is") {
  Curve curve(1000);
  for (int step = 1; step <= 100000; ++step) curve.Add(step, step == 5000 ? 7 : std::sin(step));
  CHECK(curve.points().size() <= 1000);
  CHECK(curve.points().size() > 100);
  CHECK(IsInOrder(curve.points()));
  CHECK(curve.points().back().step > 99000);
  const std::vector<double> values = ValuesOf(curve.points());
  CHECK(std::count(values.begin(), values.end(), 7) == 1);
}

TEST_CASE("a running mean is that of the last finite values") {
  const std::vector<CurvePoint> means = RunningMean({{1, 2}, {2, 4}, {3, std::nan("")}, {4, 6}, {5, 8}}, 3);
  CHECK(means[0].value == 2);
  CHECK(means[1].value == 3);
  CHECK(std::isnan(means[2].value));
  CHECK(means[3].value == 4);
  CHECK(means[4].value == 6);
}

TEST_CASE("the records of a run come back, null as no number, and no later step than asked for") {
  const std::string text =
      "{\"step\":1,\"loss\":0.5,\"epoch\":0.1,\"time\":1.5}\n{\"step\":1,\"eval_loss\":0.25,\"note\":\"x\"}\n\n"
      "{\"step\":2,\"loss\":null}\n{\"step\":3,\"loss\":7}\n{\"step\":4,\"lo";
  const auto run = ParseRecords(text, "runs/mine/metrics.jsonl", 2);
  REQUIRE(run.ok());
  CHECK(run->name == "mine");
  REQUIRE(run->Find("loss") != nullptr);
  REQUIRE(run->Find("loss")->points().size() == 2);
  CHECK(run->Find("loss")->points()[0].value == 0.5);
  CHECK(std::isnan(run->Find("loss")->points()[1].value));
  CHECK(run->Find("eval_loss")->points()[0].step == 1);
  CHECK(run->Find("note") == nullptr);
  CHECK(ParseRecords(text, "m", kAll)->Find("loss")->points().size() == 3);

  const auto csv = ParseRecords("step,name,value\n1,loss,0.5\n2,loss,nan\n2,eval_loss,3\n3,lo", "m.csv", kAll);
  REQUIRE(csv.ok());
  CHECK(csv->Find("loss")->points()[0].value == 0.5);
  CHECK(std::isnan(csv->Find("loss")->points()[1].value));
  CHECK(csv->Find("eval_loss")->points()[0].value == 3);
}

TEST_CASE("a line that is no record is named, with the file") {
  for (const char* line : {"{\"loss\":1}", "[1]", "{\"step\":1.5}", "x"}) {
    const auto run = ParseRecords(absl::StrCat("{\"step\":1}\n", line, "\n{\"step\":2}\n"), "a/metrics.jsonl", kAll);
    CHECK(absl::StrContains(run.status().message(), "a/metrics.jsonl, line 2: this is no record of a run"));
  }
  const auto csv = ParseRecords("step,name,value\n1,loss\n2,loss,3\n", "a/metrics.csv", kAll);
  CHECK(absl::StrContains(csv.status().message(), "a/metrics.csv, line 2: this is no record of a run"));
}

TEST_CASE("a run is found by its folder or by a file of records, and what is missing is said") {
  const testing::TempFolder folder;
  folder.Write("a/metrics.csv", "step,name,value\n1,loss,0.5\n");
  CHECK(ReadRun(folder / "a")->name == "a");
  folder.Write("a/metrics.jsonl", "{\"step\":1,\"loss\":0.25}\n");
  CHECK(ReadRun(folder / "a")->Find("loss")->points()[0].value == 0.25);
  CHECK(ReadRun(folder / "a/metrics.csv")->Find("loss")->points()[0].value == 0.5);
  CHECK(FolderOfRun(folder / "a/metrics.csv") == folder / "a");
  CHECK(FolderOfRun(folder / "a") == folder / "a");
  CHECK(absl::StrContains(ReadRun(folder / "b").status().message(),
                          (folder / "b") + ": no metrics.jsonl or metrics.csv is there"));
  folder.Write("c/metrics.jsonl", "");
  CHECK(absl::StrContains(ReadRun(folder / "c").status().message(), "c/metrics.jsonl has no record yet"));
}

}  // namespace
}  // namespace distill
