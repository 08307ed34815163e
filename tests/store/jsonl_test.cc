#include "libdistill/store/jsonl.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"

namespace distill {
namespace {

const std::string kPath = BuildFolder() + "/store_jsonl_test.jsonl";

struct Read {
  std::vector<FileRow> rows;
  absl::Status status;
};

std::unique_ptr<RowReader> Open(const std::string& contents) {
  std::ofstream(kPath, std::ios::binary) << contents;
  auto file = OpenFile(kPath);
  REQUIRE(file.ok());
  std::filesystem::remove(kPath);
  return OpenJsonlRows(*StreamFile(*file), kPath);
}

// Rows up to the end or the first error.
Read ReadRows(const std::string& contents) {
  const auto reader = Open(contents);
  Read read;
  while (read.status.ok()) {
    const auto chunk = reader->NextChunk();
    REQUIRE(chunk.ok());
    if (*chunk == nullptr) break;
    REQUIRE((*chunk)->ForEach([&](absl::StatusOr<FileRow> row) {
      read.status = row.status();
      if (row.ok()) read.rows.push_back(*std::move(row));
      return read.status.ok();
    }) == absl::OkStatus());
  }
  return read;
}

void CheckFails(const std::string& contents, size_t rows, const std::string& place, const std::string& what) {
  const Read read = ReadRows(contents);
  INFO(read.status);
  CHECK(read.rows.size() == rows);
  CHECK(read.status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(read.status.message(), absl::StrCat("store_jsonl_test.jsonl:", place, ": ")));
  CHECK(absl::StrContains(read.status.message(), what));
}

}  // namespace

TEST_CASE("rows come with their line numbers, blank lines counted and skipped") {
  const Read read = ReadRows("\xEF\xBB\xBF{\"a\": 1}\r\n\n  \n[true, null, -2.5, \"\\u00e9\\n\"]\n\"last\"");
  REQUIRE(read.status.ok());
  REQUIRE(read.rows.size() == 3);
  CHECK(read.rows[0].number == 1);
  CHECK(read.rows[0].value.Find("a")->number == 1);
  CHECK(read.rows[0].value.Find("b") == nullptr);
  CHECK(read.rows[1].number == 4);
  const std::vector<JsonValue>& items = read.rows[1].value.items;
  REQUIRE(items.size() == 4);
  CHECK(items[0].boolean);
  CHECK(items[1].kind == JsonValue::Kind::kNull);
  CHECK(items[2].number == -2.5);
  CHECK(items[3].text == "\xC3\xA9\n");
  CHECK(read.rows[2].value.text == "last");
  CHECK(read.rows[2].number == 5);
}

TEST_CASE("an empty file has no rows") {
  CHECK(ReadRows("").rows.empty());
  CHECK(ReadRows("\n\n").status.ok());
}

TEST_CASE("lines longer than the buffer are read whole") {
  std::string contents;
  for (const size_t size : {size_t{1}, size_t{262144}, size_t{262143}, size_t{1000003}}) {
    absl::StrAppend(&contents, "\"", std::string(size, 'x'), "\"\n");
  }
  const Read read = ReadRows(contents);
  REQUIRE(read.rows.size() == 4);
  CHECK(read.rows[1].value.text.size() == 262144);
  CHECK(read.rows[3].value.text.size() == 1000003);
}

TEST_CASE("broken rows are named by file and line") {
  CheckFails("{\"a\": 1}\n{\"a\": \n", 1, "2", "not valid JSON");
  CheckFails("{\"a\": 1} {\"b\": 2}\n", 0, "1", "not valid JSON");
  CheckFails("1\n\n\"\xff\"\n", 1, "3", "not valid UTF-8");
  CheckFails("\"\xED\xA0\x80\"\n", 0, "1", "not valid UTF-8");
  CheckFails("[]\n" + std::string(100000, '[') + std::string(100000, ']'), 1, "2", "nested more than 64 levels");
  CheckFails("{\"a\": 01}\n", 0, "1", "not valid JSON");
  CheckFails("\xFF\xFE{\0}\0", 0, "1", "not valid UTF-8");  // UTF-16
  CheckFails(" [ \r\n1\n]\n", 0, "1", "no list around them");
}

TEST_CASE("a line beyond 64 MiB is refused") {
  CheckFails("1\n\"" + std::string(kMaxLineBytes, 'x') + "\"\n", 1, "2", "longer than 64 MiB");
}

TEST_CASE("what comes after a broken row is read") {
  const auto reader = Open("1\n{\n\"\xff\"\n" + std::string(70, '[') + "\n\"" + std::string(size_t{65} << 20, 'x') +
                           "\"\n\n7\n{\"a\":");
  std::string lines;
  for (;;) {
    const auto chunk = reader->NextChunk();
    REQUIRE(chunk.ok());
    if (*chunk == nullptr) break;
    REQUIRE((*chunk)->ForEach([&](const absl::StatusOr<FileRow>& row) {
      absl::StrAppend(&lines, row.ok() ? absl::StrCat(row->number, ": ", row->value.number) : "broken", "\n");
      return true;
    }) == absl::OkStatus());
  }
  CHECK(lines == "1: 1\nbroken\nbroken\nbroken\nbroken\n7: 7\nbroken\n");
}

TEST_CASE("a file of any size is cut into chunks of whole lines") {
  std::string contents;
  for (int i = 0; i < 300'000; ++i) absl::StrAppend(&contents, "{\"n\": ", i, "}\n");
  const auto reader = Open(contents);
  int64_t chunks = 0, next = 0;
  for (;; ++chunks) {
    const auto chunk = reader->NextChunk();
    REQUIRE(chunk.ok());
    if (*chunk == nullptr) break;
    CHECK((*chunk)->first_row() == next + 1);
    REQUIRE((*chunk)->ForEach([&](const absl::StatusOr<FileRow>& row) {
      REQUIRE(row->number == next + 1);
      REQUIRE(row->value.Find("n")->integer == next++);
      return true;
    }) == absl::OkStatus());
  }
  CHECK(next == 300'000);
  CHECK(chunks >= 4);
  CHECK(reader->bytes_read() == static_cast<int64_t>(contents.size()));
}

}  // namespace distill
