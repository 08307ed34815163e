// distillrun --tune for real, on this host.
#include <cstdlib>
#include <fstream>

#include "absl/strings/match.h"
#include "launcher/local_job.h"
#include "launcher/options.h"
#include "libdistill/comm/tuning_file.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

const std::string kDistillrun = BuildFolder() + "/bin/distillrun";

TEST_CASE("--tune measures a table that later runs can read") {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/new/folder/tuning.yaml";
  REQUIRE(std::system((kDistillrun + " -np 2 --tune " + path + " > " + folder.path() + "/out").c_str()) == 0);
  const absl::StatusOr<CostTable> table = ReadTuningFile(path);
  INFO(table.status());
  REQUIRE(table.ok());
  CHECK_FALSE(*table == CostTable());
  std::ifstream out(folder.path() + "/out");
  const std::string text(std::istreambuf_iterator<char>(out), {});
  INFO(text);
  CHECK(absl::StrContains(text, TuningFileText(*table)));
  CHECK(absl::StrContains(text, "all-reduce over the fabric, 2 ranks on 1 host(s):"));
  CHECK(absl::StrContains(text, "written to " + path));
}

TEST_CASE("without a file --tune writes to the user's configuration") {
  const testing::TempFolder folder;
  const std::string run = "XDG_CONFIG_HOME=" + folder.path() + " " + kDistillrun + " -np 2 --tune > /dev/null";
  REQUIRE(std::system(run.c_str()) == 0);
  CHECK(ReadTuningFile(folder.path() + "/libdistill/tuning.yaml").ok());
}

TEST_CASE("--tune comes last, and wants two ranks") {
  CHECK(ParseLaunchOptions({"-np", "2", "--tune"})->tune);
  CHECK(ParseLaunchOptions({"-np", "2", "--tune", "x"})->tune);
  CHECK_FALSE(ParseLaunchOptions({"-np", "2", "prog", "--tune"})->tune);
  for (const std::vector<std::string>& bad : {std::vector<std::string>{"--tune", "-np", "2"},
                                              {"-np", "2", "--tune", "x", "y"},
                                              {"-np", "2", "--tune", "-H"}}) {
    const absl::Status status = ParseLaunchOptions(bad).status();
    CHECK(absl::StrContains(status.message(), "--tune comes last"));
  }
  CHECK(WEXITSTATUS(std::system((kDistillrun + " -np 1 --tune 2> /dev/null").c_str())) == 2);
}

}  // namespace
}  // namespace distill
