// Records in a real S3 server, where files cannot be added to.
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "libdistill/metrics/jsonl_writer.h"
#include "libdistill/metrics/reports.h"
#include "libdistill/metrics/tensorboard.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"
#include "tests/support/captured_stderr.h"
#include "tests/support/catch.h"
#include "tests/support/s3.h"
#include "tests/support/without_times.h"

namespace distill::testing {

TEST_CASE("records are in S3 before a checkpoint is, and at the end, and a resumed run continues them") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string path = server.Bucket() + "/out/metrics.jsonl";
  {
    auto writer = JsonlWriter::Open(path, 0);
    REQUIRE(writer.ok());
    CHECK(ReadFile(path)->empty());
    REQUIRE((*writer)->Write(1, {{"loss", 0.5}}).ok());
    (*writer)->BeforeSave(1);
    CHECK(WithoutTimes(*ReadFile(path)) == "{\"step\":1,\"loss\":0.5}\n");
    REQUIRE((*writer)->Write(2, {{"loss", 0.25}}).ok());
  }
  CHECK(WithoutTimes(*ReadFile(path)) == "{\"step\":1,\"loss\":0.5}\n{\"step\":2,\"loss\":0.25}\n");
  {
    auto writer = JsonlWriter::Open(path, 1);
    REQUIRE(writer.ok());
    REQUIRE((*writer)->Write(1, {{"loss", 0.5}}).ok());  // as it was kept: not again
    REQUIRE((*writer)->Write(2, {{"loss", 0.125}}).ok());
  }
  CHECK(WithoutTimes(*ReadFile(path)) == "{\"step\":1,\"loss\":0.5}\n{\"step\":2,\"loss\":0.125}\n");
}

TEST_CASE("a store that does not answer costs no record and ends nothing") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  SetStoreOptions({.attempts = 1});
  const std::string path = server.Bucket() + "/out/metrics.jsonl";
  std::string said;
  {
    auto writer = JsonlWriter::Open(path, 0);
    REQUIRE(writer.ok());
    server.Fault({{"PUT /", "status 503 SlowDown", 1}});
    const CapturedStderr captured;
    REQUIRE((*writer)->Write(1, {}).ok());
    const absl::Time begin = absl::Now();
    (*writer)->BeforeSave(1);
    CHECK(absl::Now() - begin < absl::Seconds(9));  // it does not wait for a later try
    REQUIRE((*writer)->Write(2, {}).ok());
    (*writer)->BeforeSave(2);
    const absl::Time limit = absl::Now() + absl::Seconds(20);
    while (!absl::StrContains(*ReadFile(path), "\"step\":2") && absl::Now() < limit)
      absl::SleepFor(absl::Milliseconds(20));
    said = captured.Text();
  }
  CHECK(WithoutTimes(*ReadFile(path)) == "{\"step\":1}\n{\"step\":2}\n");
  CHECK(absl::StrContains(said, "training continues, the records are kept"));
  CHECK(absl::StrContains(said, "is written again, with all its records"));
  SetStoreOptions({});
}

TEST_CASE("all kinds of records go to S3, and those of an earlier run go where a run begins anew") {
  if (!S3Server::IsThere()) return;
  S3Server server;
  const std::string out = server.Bucket() + "/out";
  const LogOptions options = {
      .output_dir = out,
      .report_to = {ReportTo::kJsonl, ReportTo::kCsv, ReportTo::kTensorBoard, ReportTo::kCurves},
      .shows_progress = false};
  TrainingControl control;
  for (int run = 0; run < 2; ++run) {
    auto reports = OpenReports(options, 0, 10);
    REQUIRE(reports.ok());
    for (const auto& report : *reports) REQUIRE(report->OnLog({1, 10, {{"loss", 0.5}}}, control).ok());
  }
  CHECK(*ReadFile(out + "/metrics.csv") == "step,name,value\n1,loss,0.5\n");
  CHECK(absl::StartsWith(*ReadFile(out + "/curves.png"), "\x89PNG"));
  CHECK(ListFiles(out + "/tensorboard", "events.out.tfevents.", ".v2")->size() == 1);
}

}  // namespace distill::testing
