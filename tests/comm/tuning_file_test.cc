#include "libdistill/comm/tuning_file.h"

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/description.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

class File {
 public:
  explicit File(const std::string& text) { std::ofstream(path()) << text; }
  std::string path() const { return folder_.path() + "/tuning.yaml"; }

 private:
  testing::TempFolder folder_;
};

constexpr char kGood[] =
    "shared_memory: {latency_us: 0.5, gap_us: 0, gigabytes_per_second: 9}\n"
    "network:\n  latency_us: 30\n  gap_us: 4\n  gigabytes_per_second: 3.5\n"
    "reduction_gigabytes_per_second: 20\n";

TEST_CASE("a table that was written is read again") {
  const CostTable table = {{0.5, 0, 9}, {30, 4, 3.5}, 20};
  CHECK(*ReadTuningFile(File(kGood).path()) == table);
  CHECK(*ReadTuningFile(File(TuningFileText(table)).path()) == table);
}

TEST_CASE("a broken file is one error with file, line and what is wrong") {
  const auto refusal = [](const std::string& text) {
    const File file(text);
    const absl::Status status = ReadTuningFile(file.path()).status();
    CHECK(absl::IsInvalidArgument(status));
    const std::string start = absl::StrCat("the tuning file ", file.path(), ": ");
    CHECK(absl::StartsWith(status.message(), start));
    return std::string(status.message().substr(start.size()));
  };
  const auto with = [](const std::string& what, const std::string& instead) {
    std::string text = kGood;
    return text.replace(text.find(what), what.size(), instead);
  };
  CHECK(refusal("") == "line 1: expected the keys shared_memory, network, reduction_gigabytes_per_second");
  CHECK(refusal("[1, 2") == "line 1: end of sequence flow not found");
  CHECK(refusal(with("network", "netwerk")) ==
        "line 2: unknown key 'netwerk'; shared_memory, network, reduction_gigabytes_per_second are known");
  CHECK(refusal(with("  gap_us: 4\n", "")) == "line 3: no key gap_us");
  CHECK(refusal(with("latency_us: 30", "latency_us: soon")) == "line 3: latency_us is no number");
  CHECK(refusal(with("latency_us: 30", "latency_us: [30]")) == "line 3: latency_us is no number");
  CHECK(refusal(with("latency_us: 30", "latency_us: -30")) ==
        "network: latency_us must be at least 0 and finite, not -30");
  CHECK(refusal(with("gigabytes_per_second: 9", "gigabytes_per_second: 0")) ==
        "shared_memory: gigabytes_per_second must be above 0 and finite, not 0");
  CHECK(refusal(with("second: 20", "second: inf")) ==
        "reduction_gigabytes_per_second must be above 0 and finite, not inf");
  const absl::Status missing = ReadTuningFile("/nowhere/tuning.yaml").status();
  CHECK(absl::IsNotFound(missing));
  CHECK(absl::StrContains(missing.message(), "/nowhere/tuning.yaml: No such file or directory"));
}

}  // namespace
}  // namespace distill
