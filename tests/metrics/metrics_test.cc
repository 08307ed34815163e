#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "libdistill/metrics/csv_writer.h"
#include "libdistill/metrics/jsonl_writer.h"
#include "libdistill/metrics/progress.h"
#include "libdistill/metrics/reports.h"
#include "libdistill/metrics/tensorboard.h"
#include "libdistill/store/files.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/support/without_times.h"

namespace distill {
namespace {

using testing::TempFolder;
using testing::WithoutTimes;

void WriteSteps(const std::string& path, int64_t done, int64_t last) {
  auto writer = JsonlWriter::Open(path, done);
  REQUIRE(writer.ok());
  for (int64_t step = done + 1; step <= last; ++step) {
    REQUIRE((*writer)->Write(step, {{"loss", 1.0 / 3}, {"run", static_cast<double>(done)}}) == absl::OkStatus());
  }
}

// What `show` prints through a Progress.
template <typename Show>
std::string Printed(bool is_terminal, const Show& show) {
  FILE* file = std::tmpfile();
  Progress progress(file, is_terminal, 0, 10);
  show(progress);
  std::string text(static_cast<size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  REQUIRE(std::fread(text.data(), 1, text.size(), file) == text.size());
  std::fclose(file);
  return text;
}

// One record of training and one of an evaluation, in a run of three steps.
void TellReports(const LogOptions& options) {
  const auto reports = OpenReports(options, 0, 3);
  REQUIRE(reports.ok());
  TrainingControl control;
  for (const auto& report : *reports) {
    CHECK(report->OnLog({1, 3, {{"loss", 0.1}}}, control) == absl::OkStatus());
    CHECK(report->OnEvaluate({1, 0.5, {{"loss", 2}}}, control) == absl::OkStatus());
  }
}

}  // namespace

TEST_CASE("records are one JSON object a line, step first, and read back exactly") {
  const TempFolder folder;
  const std::string path = folder.path() + "/metrics.jsonl";
  WriteSteps(path, 0, 2);
  CHECK(WithoutTimes(ReadFile(path).value()) ==
        "{\"step\":1,\"loss\":0.3333333333333333,\"run\":0.0}\n{\"step\":2,\"loss\":0.3333333333333333,\"run\":0.0}\n");
  CHECK(std::strtod("0.3333333333333333", nullptr) == 1.0 / 3);
}

TEST_CASE("what is no finite number becomes null") {
  const TempFolder folder;
  auto writer = JsonlWriter::Open(folder.path() + "/m.jsonl", 0);
  REQUIRE((*writer)->Write(1, {{"loss", std::nan("")}, {"grad_norm", INFINITY}}) == absl::OkStatus());
  CHECK(WithoutTimes(ReadFile(folder.path() + "/m.jsonl").value()) ==
        "{\"step\":1,\"loss\":null,\"grad_norm\":null}\n");
}

TEST_CASE("a resumed run keeps the records up to its checkpoint and drops the later ones, cut ones too") {
  const TempFolder folder;
  const std::string path = folder.path() + "/metrics.jsonl";
  WriteSteps(path, 0, 7);
  std::ofstream(path, std::ios::app) << "{\"step\":8,\"lo";
  WriteSteps(path, 5, 6);
  CHECK(WithoutTimes(ReadFile(path).value()) ==
        "{\"step\":1,\"loss\":0.3333333333333333,\"run\":0.0}\n{\"step\":2,\"loss\":0.3333333333333333,\"run\":0.0}\n"
        "{\"step\":3,\"loss\":0.3333333333333333,\"run\":0.0}\n{\"step\":4,\"loss\":0.3333333333333333,\"run\":0.0}\n"
        "{\"step\":5,\"loss\":0.3333333333333333,\"run\":0.0}\n{\"step\":6,\"loss\":0.3333333333333333,\"run\":5.0}\n");
  WriteSteps(path, 0, 1);
  CHECK(WithoutTimes(ReadFile(path).value()) == "{\"step\":1,\"loss\":0.3333333333333333,\"run\":0.0}\n");
}

TEST_CASE("each record has the time at which it was written, in seconds since 1970") {
  const TempFolder folder;
  const double before = std::floor(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) * 1e3) / 1e3;
  TellReports({.output_dir = folder.path(), .report_to = {ReportTo::kJsonl}});
  const double after = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) + 1e-3;
  const std::string records = folder.Read("metrics.jsonl");
  CHECK(WithoutTimes(records) == "{\"step\":1,\"loss\":0.1}\n{\"step\":1,\"eval_loss\":2.0,\"epoch\":0.5}\n");
  for (size_t at = 0; (at = records.find("\"time\":", at)) != std::string::npos; ++at) {
    const double time = std::strtod(records.c_str() + at + 7, nullptr);
    CHECK(before <= time);
    CHECK(time <= after);
  }
}

TEST_CASE("a record of the step at which a run resumes is not written again, whenever it was made") {
  const TempFolder folder;
  const std::string path = folder / "metrics.jsonl";
  folder.Write("metrics.jsonl",
               "{\"step\":1,\"loss\":0.5,\"time\":12.000}\n{\"step\":1,\"eval_loss\":0.5,\"time\":13.000}\n");
  auto writer = JsonlWriter::Open(path, 1);
  REQUIRE(writer.ok());
  CHECK((*writer)->Write(1, {{"eval_loss", 0.5}}) == absl::OkStatus());
  CHECK(ReadFile(path).value() ==
        "{\"step\":1,\"loss\":0.5,\"time\":12.000}\n{\"step\":1,\"eval_loss\":0.5,\"time\":13.000}\n");
  CHECK((*writer)->Write(1, {{"eval_loss", 0.25}}) == absl::OkStatus());
  CHECK(absl::StrContains(ReadFile(path).value(), "13.000}\n{\"step\":1,\"eval_loss\":0.25,"));
}

TEST_CASE("a terminal sees one line rewritten, a file one line a record") {
  const auto two_steps = [](Progress& progress) {
    TrainingControl control;
    absl::Status status =
        progress.OnLog({1, 10, {{"loss", 2.5}, {"learning_rate", 1e-4}, {"tokens_per_second", 1234.5}}}, control);
    status.Update(progress.OnLog({2, 10, {{"loss", 2.25}}}, control));
    status.Update(progress.OnEvaluate({2, 0.5, {{"loss", 3}}}, control));
    CHECK(status == absl::OkStatus());
  };
  const std::string plain = Printed(false, two_steps);
  CHECK(
      absl::StartsWith(plain, "step 1/10  loss 2.5000  lr 0.0001  1234 tokens/s  00:00 left\nstep 2/10  loss 2.2500"));
  CHECK(absl::EndsWith(plain, "left\nstep 2 on held-out data:  eval_loss 3.0000  epoch 0.5000\n"));
  CHECK_FALSE(absl::StrContains(plain, "\r"));
  const std::string terminal = Printed(true, two_steps);
  CHECK(absl::StartsWith(terminal, "\rstep 1/10  loss 2.5000  1234 tokens/s  00:00 left\x1b[K"));
  CHECK(absl::StrContains(terminal, "left\x1b[K\rstep 2/10"));
  CHECK(absl::StrContains(terminal, "left\x1b[K\nstep 2 on held-out data"));
}

TEST_CASE("times are written as a clock does") {
  CHECK(ClockTime(0) == "00:00");
  CHECK(ClockTime(59.6) == "01:00");
  CHECK(ClockTime(3661) == "1:01:01");
}

TEST_CASE("CRC-32C gives RFC 3720's values, and TFRecord's mask of them") {
  CHECK(Crc32c("123456789") == 0xe3069283u);
  CHECK(Crc32c(std::string(32, '\0')) == 0x8a9136aau);
  CHECK(Crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
  CHECK(MaskedCrc32c("123456789") == (0xe3069283u >> 15 | 0xe3069283u << 17) + 0xa282ead8u);
}

TEST_CASE("a log without an output folder writes no files") {
  const TempFolder folder;
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  TellReports({});
  std::filesystem::current_path(here);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("records go where report_to says, and nowhere else") {
  const auto files_of = [](const LogOptions& options) {
    TellReports(options);
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(options.output_dir)) {
      names.insert(entry.path().filename());
    }
    return names;
  };
  const TempFolder all, none, named;
  using Names = std::set<std::string>;
  CHECK(files_of({.output_dir = all.path()}) == Names{"curves.png", "metrics.jsonl", "tensorboard"});
  CHECK(files_of({.output_dir = none.path(), .report_to = {}}).empty());
  CHECK(files_of(
            {.output_dir = named.path(), .report_to = {ReportTo::kCsv, ReportTo::kTensorBoard}, .run_name = "first"}) ==
        Names{"metrics.csv", "tensorboard"});
  CHECK(std::filesystem::is_directory(named / "tensorboard/first"));
  CHECK(named.Read("metrics.csv") == "step,name,value\n1,loss,0.1\n1,eval_loss,2\n1,epoch,0.5\n");
}

TEST_CASE("metrics.csv has a line a value, and a resumed run drops what came after its step") {
  const TempFolder folder;
  const std::string path = folder / "metrics.csv";
  const auto write = [&](int64_t done, int64_t step, const NamedValues& values) {
    auto writer = CsvWriter::Open(path, done);
    REQUIRE(writer.ok());
    CHECK((*writer)->Write(step, values) == absl::OkStatus());
  };
  write(0, 1, {{"loss", 1.0 / 3}, {"epoch", 0.5}});
  CHECK(folder.Read("metrics.csv") == "step,name,value\n1,loss,0.3333333333333333\n1,epoch,0.5\n");
  folder.Write("metrics.csv", folder.Read("metrics.csv") + "2,loss,0.25\n3,lo");
  write(1, 2, {{"eval_loss", 2}});
  CHECK(folder.Read("metrics.csv") == "step,name,value\n1,loss,0.3333333333333333\n1,epoch,0.5\n2,eval_loss,2\n");
  write(0, 1, {{"loss", 4}});
  CHECK(folder.Read("metrics.csv") == "step,name,value\n1,loss,4\n");
}

TEST_CASE("an output folder that cannot be made is an error that names it") {
  const TempFolder folder;
  std::ofstream(folder.path() + "/file") << "x";
  const auto reports = OpenReports({.output_dir = folder / "file/out"}, 0, 3);
  CHECK(reports.status().code() == absl::StatusCode::kPermissionDenied);
  CHECK(absl::StrContains(reports.status().message(), folder.path() + "/file/out"));
}

}  // namespace distill
