// Axes, their ticks, and which curves are drawn where.
#include "libdistill/metrics/figure.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

std::string Labels(const Axis& axis) {
  return absl::StrJoin(axis.ticks, " ", [](std::string* out, const Tick& tick) { out->append(tick.label); });
}

std::string Titles(const Figure& figure) {
  return absl::StrJoin(figure.panels, " | ",
                       [](std::string* out, const FigurePanel& panel) { out->append(panel.title); });
}

RunCurves RunOf(const std::string& name, const std::vector<NamedValues>& records) {
  RunCurves run{.name = name};
  for (size_t i = 0; i < records.size(); ++i) run.Add(static_cast<int64_t>(i) + 1, records[i]);
  return run;
}

TEST_CASE("ticks are at 1, 2 or 5 times a power of ten, with as many digits as they need") {
  CHECK(Labels(LinearAxis(0, 1, 6)) == "0 0.2 0.4 0.6 0.8 1.0");
  CHECK(Labels(LinearAxis(0.13, 0.29, 6)) == "0.15 0.20 0.25");
  CHECK(Labels(LinearAxis(-3, 12, 6)) == "0 5 10");
  CHECK(Labels(LinearAxis(0, 2e-5, 6)) == "0 5e-6 1.0e-5 1.5e-5 2.0e-5");
  CHECK(Labels(LinearAxis(0.5, 0.5002, 6)) == "0.50000 0.50005 0.50010 0.50015 0.50020");
  CHECK(Labels(LinearAxis(0, 150000, 8)) == "0 20k 40k 60k 80k 100k 120k 140k");
  CHECK(Labels(LinearAxis(0, 12500, 6)) == "0 5k 10k");
  CHECK(Labels(LinearAxis(0, 3e7, 6)) == "0 10M 20M 30M");
  CHECK(Labels(LinearAxis(1, 4, 8, 1)) == "1 2 3 4");  // steps have no halves
}

TEST_CASE("an axis has two ticks at least and no more than it may, wherever its range lies") {
  for (double low = 1e-7; low < 1e9; low *= 3.7) {
    for (double width = low / 50; width < 100 * low; width *= 1.31) {
      for (const int most : {5, 6, 8}) {
        const Axis axis = LinearAxis(low, low + width, most);
        INFO(low << " + " << width << ": " << Labels(axis));
        REQUIRE(axis.ticks.size() >= 2);
        REQUIRE(static_cast<int>(axis.ticks.size()) <= most);
        for (size_t i = 0; i < axis.ticks.size(); ++i) {
          REQUIRE(axis.Place(axis.ticks[i].value) > -1e-6);
          REQUIRE(axis.Place(axis.ticks[i].value) < 1 + 1e-6);
          REQUIRE((i == 0 || axis.ticks[i].label != axis.ticks[i - 1].label));
        }
      }
    }
  }
}

TEST_CASE("a logarithmic axis has powers of ten, and what lies between them where these are few") {
  CHECK(Labels(LogAxis(0.08, 12, 6)) == "0.1 0.2 0.5 1 2 5 10");
  CHECK(Labels(LogAxis(1e-7, 1e7, 6)) == "1e-6 0.001 1 1000 1e6");
  CHECK(Labels(LogAxis(0.5, 30000, 6)) == "1 10 100 1000 10k");
  const Axis axis = LogAxis(0.01, 100, 6);
  CHECK(axis.Place(1) == Approx(0.5));
  CHECK(axis.Place(0.01) == Approx(0));
}

TEST_CASE("an axis is logarithmic where a linear one would hide most of the values, and not elsewhere") {
  std::vector<double> falls, cosine, rises, flat(100, 0.5), spiky(1000, 1);
  spiky[7] = 50;
  for (int i = 0; i < 1000; ++i) {
    falls.push_back(0.05 + 20 * std::exp(-i / 30.0));
    cosine.push_back(1e-4 * (1 + std::cos(3.1415 * i / 1000)));
    rises.push_back(0.9 - 0.899 * std::exp(-i / 30.0));
  }
  CHECK(AxisOf(falls, 6).is_log);
  CHECK(AxisOf(spiky, 6).is_log);
  CHECK_FALSE(AxisOf(cosine, 6).is_log);
  CHECK_FALSE(AxisOf(rises, 6).is_log);
  CHECK_FALSE(AxisOf(flat, 6).is_log);
  falls.back() = 0;  // has no logarithm
  CHECK_FALSE(AxisOf(falls, 6).is_log);
}

TEST_CASE("any values have an axis: one alone, none, tiny, huge, negative") {
  for (const std::vector<double>& values : std::vector<std::vector<double>>{
           {}, {0}, {3}, {-3}, {1e-300, 2e-300}, {-9e289, 9e289}, {1e15, 1e15 + 0.25}, {5e-324}}) {
    const Axis axis = AxisOf(values, 6);
    INFO(absl::StrJoin(values, ", ") << ": " << Labels(axis));
    CHECK(axis.low < axis.high);
    CHECK_FALSE(axis.ticks.empty());
    for (const double value : values) {
      CHECK(axis.Place(value) >= 0);
      CHECK(axis.Place(value) <= 1);
    }
  }
}

TEST_CASE("each metric has a panel with its training and its evaluations; speeds have none unless they are asked for") {
  const RunCurves run = RunOf(
      "a",
      {{{"loss", 2}, {"kl", 1}, {"grad_norm", 3}, {"learning_rate", 0.1}, {"epoch", 0.5}, {"tokens_per_second", 10}},
       {{"eval_loss", 1}, {"eval_accuracy", 0.5}, {"epoch", 1}}});
  const Figure figure = FigureOf({run}, {.title = "t"}).value();
  CHECK(Titles(figure) == "loss | accuracy | kl | grad_norm | learning_rate");
  REQUIRE(figure.panels[0].lines.size() == 2);
  CHECK(figure.panels[0].lines[0].kind == LineKind::kTraining);
  CHECK(figure.panels[0].lines[1].kind == LineKind::kEvaluation);
  CHECK(figure.panels[0].across.low == figure.panels[1].across.low);
  CHECK(figure.subtitle == "step 2");
  CHECK(Titles(FigureOf({run}, {.title = "", .metrics = {"eval_accuracy", "tokens_per_second"}}).value()) ==
        "accuracy | tokens_per_second");
  const auto wrong = FigureOf({run}, {.title = "", .metrics = {"f1"}});
  CHECK(wrong.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(
      absl::StrContains(wrong.status().message(), "no record has 'f1'; there are loss, kl, grad_norm, learning_rate"));
}

TEST_CASE("parts of what is evaluated come last, so that many of them leave room for the rest") {
  NamedValues evaluated = {{"eval_loss", 1}, {"eval_rate", 0.5}};
  for (int day = 0; day < 20; ++day) evaluated.emplace_back(absl::StrCat("eval_rate.d.", day), 0.5);
  const RunCurves run = RunOf("a", {{{"loss", 2}, {"learning_rate", 1}, {"no.part", 1}}, evaluated});
  const Figure figure = FigureOf({run}, {.title = ""}).value();
  REQUIRE(figure.panels.size() == 12);
  CHECK(absl::StartsWith(Titles(figure), "loss | rate | no.part | learning_rate | rate.d.0 | rate.d.1 | "));
}

TEST_CASE("a running mean is drawn over the records, and named") {
  const RunCurves run = RunOf("a", {{{"loss", 2}}, {{"loss", 4}}, {{"eval_loss", 1}}});
  const Figure figure = FigureOf({run}, {.title = "", .smooth = 2}).value();
  REQUIRE(figure.panels[0].lines.size() == 3);
  CHECK(figure.panels[0].lines[0].is_faint);
  CHECK(figure.panels[0].lines[1].kind == LineKind::kMean);
  CHECK(figure.panels[0].lines[1].points[1].value == 3);
  CHECK(figure.mean_name == "training, mean of 2 records");
}

TEST_CASE("several runs share each panel, a metric without a finite number says so, and too many metrics are named") {
  NamedValues many;
  for (int i = 0; i < 15; ++i) many.emplace_back(absl::StrCat("m", i), i);
  const RunCurves first = RunOf("first", {{{"loss", NAN}}, many}), second = RunOf("second", {{{"loss", INFINITY}}});
  const Figure figure = FigureOf({first, second}, {.title = ""}).value();
  CHECK(figure.runs == std::vector<std::string>{"first", "second"});
  CHECK(figure.panels[0].title == "loss: no finite value");
  REQUIRE(figure.panels[0].lines.size() == 2);
  CHECK(figure.panels[0].lines[1].run == 1);
  CHECK(figure.panels.size() == 12);
  CHECK(figure.note == "also recorded, and not drawn: m11, m12, m13, m14");
}

}  // namespace
}  // namespace distill
