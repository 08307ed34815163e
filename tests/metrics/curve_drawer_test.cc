// curves.png: what it holds, when it is drawn, and what a picture that cannot be drawn costs.
#include "libdistill/metrics/curve_drawer.h"

#include <cairo.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "libdistill/metrics/draw_figure.h"
#include "libdistill/metrics/reports.h"
#include "tests/support/captured_stderr.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

namespace fs = std::filesystem;

using testing::CapturedStderr;
using testing::TempFolder;

// What a PNG file shows, as Cairo's own decoder reads it.
struct Picture {
  int width = 0, height = 0;
  std::set<uint32_t> colours;

  explicit Picture(const std::string& path) {
    cairo_surface_t* surface = cairo_image_surface_create_from_png(path.c_str());
    REQUIRE(cairo_surface_status(surface) == CAIRO_STATUS_SUCCESS);
    width = cairo_image_surface_get_width(surface);
    height = cairo_image_surface_get_height(surface);
    for (int y = 0; y < height; ++y) {
      const auto* row = reinterpret_cast<const uint32_t*>(cairo_image_surface_get_data(surface) +
                                                          y * cairo_image_surface_get_stride(surface));
      for (int x = 0; x < width; ++x) colours.insert(row[x] & 0xffffff);
    }
    cairo_surface_destroy(surface);
  }
  // Of training and of evaluations, where there is one run.
  bool HasTraining() const { return colours.count(0x0072b2) == 1; }
  bool HasEvaluation() const { return colours.count(0xd55e00) == 1; }
};

Picture Drawn(const TempFolder& folder, const std::vector<RunCurves>& runs) {
  const auto figure = FigureOf(runs, {.title = "a run"});
  REQUIRE(figure.ok());
  const auto png = DrawPng(*figure);
  REQUIRE(png.ok());
  return Picture(folder.Write("a.png", *png));
}

void Train(Observer& drawer, int64_t first, int64_t last, const std::string& name = "loss") {
  TrainingControl control;
  for (int64_t step = first; step <= last; ++step) {
    REQUIRE(drawer.OnLog({step, 100, {{name, 1.0 / static_cast<double>(step)}}}, control) == absl::OkStatus());
  }
}

TEST_CASE("a picture decodes to its size, and shows training and evaluations") {
  const TempFolder folder;
  RunCurves run{.name = "a"};
  for (int step = 1; step <= 200; ++step) run.Add(step, {{"loss", std::exp(-step / 50.0)}, {"learning_rate", 1e-4}});
  const Picture trained = Drawn(folder, {run});
  CHECK(trained.width == kPictureWidth);
  CHECK(trained.height == 52 + 300 + 6);
  CHECK(trained.HasTraining());
  CHECK_FALSE(trained.HasEvaluation());
  run.Add(200, {{"eval_loss", 0.5}, {"eval_accuracy", 0.5}});
  const Picture evaluated = Drawn(folder, {run});
  CHECK(evaluated.height == 52 + 2 * 300 + 6);
  CHECK(evaluated.HasTraining());
  CHECK(evaluated.HasEvaluation());
  CHECK(Drawn(folder, {run, run, run}).height == evaluated.height + 24);
}

TEST_CASE("whatever names and values a run has, it can be drawn") {
  const TempFolder folder;
  CHECK(Drawn(folder, {RunCurves{.name = "nothing"}}).width == kPictureWidth);
  RunCurves run{.name = std::string("\xff\0\n", 3) + std::string(5000, 'x')};
  run.Add(1, {{"loss", NAN}, {std::string(3000, 'm') + "\xc3", 1e300}});
  run.Add(2, {{"loss", -INFINITY}, {"eval_\xe2\x82\xac", 5e-324}, {"huge", 1e289}, {"", 0}});
  for (int i = 0; i < 30; ++i) run.Add(3, {{"metric" + std::to_string(i), i}});
  const Picture picture = Drawn(folder, {run, run});
  CHECK(picture.height == 52 + 24 + 6 * 300 + 30);
}

TEST_CASE("a gap is a gap, and a point between two of them is seen") {
  const TempFolder folder;
  RunCurves gap{.name = "gap"}, point{.name = "point"};
  for (int step = 1; step <= 3; ++step) {
    gap.Add(step, {{"loss", NAN}});
    point.Add(step, {{"loss", step == 2 ? 1 : NAN}});
  }
  CHECK_FALSE(Drawn(folder, {gap}).HasTraining());
  CHECK(Drawn(folder, {point}).HasTraining());
}

TEST_CASE("curves are drawn while a run goes on, and what came last when it ends") {
  const TempFolder folder;
  const std::string path = folder / "out/curves.png";
  {
    CurveDrawer drawer(path, {.name = "a run"}, absl::Milliseconds(50));
    Train(drawer, 1, 5);
    const absl::Time limit = absl::Now() + absl::Seconds(60);
    while (!fs::exists(path) && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(10));
    CHECK(Picture(path).height == 52 + 300 + 6);
    Train(drawer, 6, 6, "kl");
    Train(drawer, 6, 6, "ce");
  }
  CHECK(Picture(path).height == 52 + 2 * 300 + 6);
  CHECK(std::distance(fs::directory_iterator(folder / "out"), fs::directory_iterator()) == 1);
}

TEST_CASE("drawing takes no more than a hundredth of the time") {
  const TempFolder folder;
  const std::string path = folder / "curves.png";
  int drawn = 0;
  {
    CurveDrawer drawer(path, {.name = "a run"}, absl::Milliseconds(1));
    const absl::Time limit = absl::Now() + absl::Seconds(1);
    fs::file_time_type last = {};
    for (int64_t step = 1; absl::Now() < limit; ++step) {
      Train(drawer, step, step);
      std::error_code none;
      const fs::file_time_type now = fs::last_write_time(path, none);
      drawn += !none && now != last ? 1 : 0;
      if (!none) last = now;
      absl::SleepFor(absl::Milliseconds(2));
    }
  }
  CHECK(drawn >= 1);
  CHECK(drawn <= 3);  // a picture takes 10 ms at least
}

TEST_CASE("a resumed run draws the earlier records too, without those of steps that it makes again") {
  for (const ReportTo report : {ReportTo::kJsonl, ReportTo::kCsv}) {
    const TempFolder folder;
    const LogOptions options = {
        .output_dir = folder.path(), .report_to = {ReportTo::kCurves, report}, .shows_progress = false};
    TrainingControl control;
    const auto run = [&](int64_t done_steps, int64_t step, const char* metric) {
      const auto reports = OpenReports(options, done_steps, 10);
      REQUIRE(reports.ok());
      for (const auto& one : *reports) CHECK(one->OnEvaluate({step, 0.5, {{metric, 2}}}, control) == absl::OkStatus());
    };
    run(0, 1, "loss");
    run(1, 5, "of_a_step_that_is_made_again");
    run(2, 3, "accuracy");
    const auto again = ReadRun(folder.path());
    REQUIRE(again.ok());
    CHECK(again->Find("eval_of_a_step_that_is_made_again") == nullptr);
    // Two panels beside one another, where one alone would be as wide as the picture: the same height, other pixels.
    const Figure figure = FigureOf({*again}, {.title = folder.path()}).value();
    CHECK(figure.panels.size() == 2);
    CHECK(folder.Read("curves.png") == DrawPng(figure).value());
  }
}

TEST_CASE("a picture that cannot be written is warned of once, and ends no run") {
  const TempFolder folder;
  folder.Write("file", "x");
  const CapturedStderr captured;
  {
    CurveDrawer drawer(folder / "file/curves.png", {.name = "a run"}, absl::Milliseconds(1));
    for (int64_t step = 1; step <= 4; ++step) {
      Train(drawer, step, step);
      absl::SleepFor(absl::Milliseconds(300));
    }
  }
  const std::string said = captured.Text();
  CHECK(absl::StrContains(said, (folder / "file/curves.png") + " is not drawn: "));
  CHECK(absl::StrContains(said, "training continues"));
  CHECK(said.find("is not drawn") == said.rfind("is not drawn"));
}

}  // namespace
}  // namespace distill
