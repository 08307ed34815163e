#include "libdistill/store/jsonl.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

const std::string kPath = std::string(DISTILL_BUILD_DIR) + "/store_jsonl_test.jsonl";

struct Read {
  std::vector<JsonlRow> rows;
  absl::Status status;
};

// Rows up to the end or the first error.
Read ReadAll(const std::string& contents) {
  std::ofstream(kPath, std::ios::binary) << contents;
  auto reader = JsonlReader::Open(kPath);
  REQUIRE(reader.ok());
  Read read;
  for (;;) {
    auto row = reader->Next();
    if (!row.ok() || !row->has_value()) {
      read.status = row.status();
      break;
    }
    read.rows.push_back(std::move(**row));
  }
  std::filesystem::remove(kPath);
  return read;
}

void CheckFails(const std::string& contents, size_t rows, const std::string& place, const std::string& what) {
  const Read read = ReadAll(contents);
  INFO(read.status);
  CHECK(read.rows.size() == rows);
  CHECK(read.status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(read.status.message(), absl::StrCat("store_jsonl_test.jsonl:", place, ": ")));
  CHECK(absl::StrContains(read.status.message(), what));
}

}  // namespace

TEST_CASE("rows come with their line numbers, blank lines counted and skipped") {
  const Read read = ReadAll("\xEF\xBB\xBF{\"a\": 1}\r\n\n  \n[true, null, -2.5, \"\\u00e9\\n\"]\n\"last\"");
  REQUIRE(read.status.ok());
  REQUIRE(read.rows.size() == 3);
  CHECK(read.rows[0].line == 1);
  CHECK(read.rows[0].value.Find("a")->number == 1);
  CHECK(read.rows[0].value.Find("b") == nullptr);
  CHECK(read.rows[1].line == 4);
  const std::vector<JsonValue>& items = read.rows[1].value.items;
  REQUIRE(items.size() == 4);
  CHECK(items[0].boolean);
  CHECK(items[1].kind == JsonValue::Kind::kNull);
  CHECK(items[2].number == -2.5);
  CHECK(items[3].text == "\xC3\xA9\n");
  CHECK(read.rows[2].value.text == "last");
  CHECK(read.rows[2].line == 5);
}

TEST_CASE("an empty file has no rows") {
  CHECK(ReadAll("").rows.empty());
  CHECK(ReadAll("\n\n").status.ok());
}

TEST_CASE("lines longer than the buffer are read whole") {
  std::string contents;
  for (const size_t size : {size_t{1}, size_t{262144}, size_t{262143}, size_t{1000003}}) {
    absl::StrAppend(&contents, "\"", std::string(size, 'x'), "\"\n");
  }
  const Read read = ReadAll(contents);
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
  CheckFails("1\n\"" + std::string(JsonlReader::kMaxLineBytes, 'x') + "\"\n", 1, "2", "longer than 64 MiB");
}

TEST_CASE("what comes after a broken row is read") {
  std::ofstream(kPath, std::ios::binary) << "1\n{\n\"\xff\"\n"
                                         << std::string(70, '[') << "\n\"" << std::string(size_t{65} << 20, 'x')
                                         << "\"\n\n7\n{\"a\":";
  auto reader = JsonlReader::Open(kPath);
  REQUIRE(reader.ok());
  std::string lines;
  for (;;) {
    const auto row = reader->Next();
    if (row.ok() && !*row) break;
    absl::StrAppend(&lines, row.ok() ? absl::StrCat((*row)->line, ": ", (*row)->value.number) : "broken", "\n");
  }
  CHECK(lines == "1: 1\nbroken\nbroken\nbroken\nbroken\n7: 7\nbroken\n");
  std::filesystem::remove(kPath);
}

TEST_CASE("opening says what is wrong with the path") {
  CHECK(JsonlReader::Open(kPath + ".none").status().code() == absl::StatusCode::kNotFound);
  CHECK(JsonlReader::Open(DISTILL_BUILD_DIR).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(JsonlReader::Open("s3://b/x.jsonl").status().message(), "s3://"));
}

}  // namespace distill
