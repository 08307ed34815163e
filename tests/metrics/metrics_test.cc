#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/metrics/jsonl_writer.h"
#include "libdistill/metrics/progress.h"
#include "libdistill/metrics/tensorboard.h"
#include "libdistill/metrics/training_log.h"
#include "libdistill/store/files.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

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

}  // namespace

TEST_CASE("records are one JSON object a line, step first, and read back exactly") {
  const TempFolder folder;
  const std::string path = folder.path() + "/metrics.jsonl";
  WriteSteps(path, 0, 2);
  CHECK(ReadFile(path).value() ==
        "{\"step\":1,\"loss\":0.3333333333333333,\"run\":0.0}\n{\"step\":2,\"loss\":0.3333333333333333,\"run\":0.0}\n");
  CHECK(std::strtod("0.3333333333333333", nullptr) == 1.0 / 3);
}

TEST_CASE("what is no finite number becomes null") {
  const TempFolder folder;
  auto writer = JsonlWriter::Open(folder.path() + "/m.jsonl", 0);
  REQUIRE((*writer)->Write(1, {{"loss", std::nan("")}, {"grad_norm", INFINITY}}) == absl::OkStatus());
  CHECK(ReadFile(folder.path() + "/m.jsonl").value() == "{\"step\":1,\"loss\":null,\"grad_norm\":null}\n");
}

TEST_CASE("a resumed run keeps the records up to its checkpoint and drops the later ones, cut ones too") {
  const TempFolder folder;
  const std::string path = folder.path() + "/metrics.jsonl";
  WriteSteps(path, 0, 7);
  std::ofstream(path, std::ios::app) << "{\"step\":8,\"lo";
  WriteSteps(path, 5, 6);
  CHECK(ReadFile(path).value() ==
        "{\"step\":1,\"loss\":0.3333333333333333,\"run\":0.0}\n{\"step\":2,\"loss\":0.3333333333333333,\"run\":0.0}\n"
        "{\"step\":3,\"loss\":0.3333333333333333,\"run\":0.0}\n{\"step\":4,\"loss\":0.3333333333333333,\"run\":0.0}\n"
        "{\"step\":5,\"loss\":0.3333333333333333,\"run\":0.0}\n{\"step\":6,\"loss\":0.3333333333333333,\"run\":5.0}\n");
  WriteSteps(path, 0, 1);
  CHECK(ReadFile(path).value() == "{\"step\":1,\"loss\":0.3333333333333333,\"run\":0.0}\n");
}

TEST_CASE("a terminal sees one line rewritten, a file one line a record") {
  const auto two_steps = [](Progress& progress) {
    progress.Show(1, {{"loss", 2.5}, {"learning_rate", 1e-4}, {"tokens_per_second", 1234.5}});
    progress.Show(2, {{"loss", 2.25}});
    progress.ShowEvaluation(2, {{"eval_loss", 3}});
  };
  const std::string plain = Printed(false, two_steps);
  CHECK(
      absl::StartsWith(plain, "step 1/10  loss 2.5000  lr 0.0001  1234 tokens/s  00:00 left\nstep 2/10  loss 2.2500"));
  CHECK(absl::EndsWith(plain, "left\nstep 2 on held-out data:  eval_loss 3.0000\n"));
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
  auto log = TrainingLog::Open("", 0, 3);
  REQUIRE(log.ok());
  CHECK((*log)->Train(1, {{"loss", 1}}) == absl::OkStatus());
  CHECK((*log)->Evaluation(1, {{"eval_loss", 1}}) == absl::OkStatus());
  std::filesystem::current_path(here);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("an output folder that cannot be made is an error that names it") {
  const TempFolder folder;
  std::ofstream(folder.path() + "/file") << "x";
  const auto log = TrainingLog::Open(folder.path() + "/file/out", 0, 3);
  CHECK(log.status().code() == absl::StatusCode::kPermissionDenied);
  CHECK(absl::StrContains(log.status().message(), folder.path() + "/file/out"));
}

}  // namespace distill
