// Files that tests/golden/rows_golden.py wrote, against what pyarrow and Python's csv say is in them.
#include <filesystem>
#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "libdistill/store/files.h"
#include "tests/store/row_files.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"

namespace distill::testing {
namespace {

const std::string kGolden = GoldenFolder() + "/rows";

// Without the numbers of rows, of which CSV counts lines.
std::vector<std::string> Values(const std::string& path) {
  std::vector<std::string> values;
  const auto reader = OpenRows(*OpenFile(path));
  INFO(path << ": " << reader.status());
  REQUIRE(reader.ok());
  for (;;) {
    const auto chunk = (*reader)->NextChunk();
    INFO(path << ": " << chunk.status());
    REQUIRE(chunk.ok());
    if (*chunk == nullptr) return values;
    REQUIRE((*chunk)->ForEach([&](const absl::StatusOr<FileRow>& row) {
      INFO(path << ": " << row.status());
      REQUIRE(row.ok());
      values.push_back(AsText(row->value));
      return true;
    }) == absl::OkStatus());
  }
}

TEST_CASE("Parquet and CSV hold what their writers say") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden)) {
    if (entry.path().extension() != ".rows") continue;
    const std::vector<std::string> wanted = Values(entry.path().string());
    for (const char* ending : {".parquet", ".csv", ".tsv"}) {
      std::filesystem::path path = entry.path();
      path.replace_extension(ending);
      if (!std::filesystem::exists(path)) continue;
      ++files;
      const std::vector<std::string> found = Values(path.string());
      INFO(path);
      REQUIRE(found.size() == wanted.size());
      for (size_t i = 0; i < found.size(); ++i) REQUIRE(found[i] == wanted[i]);
    }
  }
  CHECK(files == 12);
}

TEST_CASE("whole row groups of Parquet are left out, from wherever the reader stands") {
  const auto rows = OpenRows(*OpenFile(kGolden + "/plain_pages.parquet"));  // groups of 2500 and 500 rows
  REQUIRE(rows.ok());
  CHECK((*rows)->SkipRows(2499).value() == 0);
  CHECK((*rows)->NextChunk().value()->CountRows() == 1024);
  CHECK((*rows)->SkipRows(1475).value() == 0);
  CHECK((*rows)->SkipRows(1476 + 499).value() == 1476);
  const auto chunk = (*rows)->NextChunk();
  REQUIRE(chunk.ok());
  CHECK((*chunk)->first_row() == 2501);
  CHECK((*chunk)->CountRows() == 500);
  CHECK((*rows)->NextChunk().value() == nullptr);
  const auto groups = OpenRows(*OpenFile(kGolden + "/plain_none.parquet"));  // of 130
  CHECK((*groups)->SkipRows(300).value() == 260);
  CHECK((*groups)->NextChunk().value()->first_row() == 261);
  CHECK((*groups)->SkipRows(1'000'000).value() == 110);
  CHECK((*groups)->NextChunk().value() == nullptr);
}

TEST_CASE("only the columns that are asked for are read, and types that no row holds are refused by name") {
  CHECK(
      absl::StartsWith(RowsOf(kGolden + "/finetome.parquet", {.columns = {"score"}}), "1 {score:5}\n2 {score:5.01}\n"));
  CHECK(absl::StrContains(RowsOf(kGolden + "/finetome.parquet", {.columns = {"text"}}),
                          "finetome.parquet has no column 'text'; it has conversations, source, score"));
  CHECK(RowsOf(kGolden + "/types.parquet") == "1 {text:'a'}\n");
  CHECK(absl::StrContains(RowsOf(kGolden + "/types.parquet", {.columns = {"when"}}),
                          "types.parquet: column 'when' has values of type timestamp[us]"));
  CHECK(absl::StrContains(RowsOf(kGolden + "/types.parquet", {.columns = {"blob"}}),
                          "column 'blob' has values of type binary"));
}

TEST_CASE("damaged Parquet is refused or read, and never crashes") {
  int refused = 0, files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden)) {
    if (!absl::StartsWith(entry.path().filename().string(), "bad_")) continue;
    ++files;
    const std::string rows = RowsOf(entry.path().string());
    const bool is_error = absl::StrContains(rows, "DATA_LOSS") || absl::StrContains(rows, "INVALID_ARGUMENT") ||
                          absl::StrContains(rows, "RESOURCE_EXHAUSTED");
    if (is_error) CHECK(absl::StrContains(rows, entry.path().filename().string()));
    refused += is_error;
  }
  CHECK(files == 300);
  CHECK(refused > 150);  // all of those that were cut; a changed byte of a text is text, without page checksums
}

}  // namespace
}  // namespace distill::testing
