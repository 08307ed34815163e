#include "libdistill/data/row_progress.h"

#include "absl/strings/match.h"
#include "tests/support/captured_stderr.h"
#include "tests/support/catch.h"

namespace distill {

TEST_CASE("reading rows says how many there were, how much of the data, and what is left") {
  const testing::CapturedStderr captured;
  RowProgress progress("chat.jsonl", 200'000'000, std::chrono::seconds(0));
  progress.Tell(1000, 50'000'000);
  progress.Tell(4000, 200'000'000);
  const std::string said = captured.Text();
  CHECK(absl::StrContains(said, "chat.jsonl: 1000 rows, 25 % of 200 MB"));
  CHECK(absl::StrContains(said, "chat.jsonl: 4000 rows, 100 % of 200 MB, 0 s left"));
}

TEST_CASE("small data sets, which are read before the first line is due, say nothing") {
  const testing::CapturedStderr captured;
  RowProgress progress("chat.jsonl", 1000);
  for (int row = 1; row <= 10; ++row) progress.Tell(row, 100 * row);
  CHECK(captured.Text().empty());
}

}  // namespace distill
