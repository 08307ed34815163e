// Rows that cannot be used, for each reader of rows: refused with what is wrong with each, or left out.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/identity.h"
#include "libdistill/core/utf8.h"
#include "tests/data/row_readers.h"
#include "tests/support/captured_stderr.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::CapturedStderr;
using testing::TempFolder;

std::string Lines(const std::vector<std::string>& rows) {
  std::string lines;
  for (const std::string& row : rows) absl::StrAppend(&lines, row, absl::EndsWith(row, "\n") ? "" : "\n");
  return lines;
}

void CheckRefused(const Loaded& loaded, const std::string& beginning, const std::string& reason = "") {
  INFO(loaded.status());
  CHECK(loaded.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StartsWith(loaded.status().message(), beginning));
  CHECK(absl::StrContains(loaded.status().message(), reason));
}

constexpr RowOptions kSkip = {.bad_rows = BadRows::kSkip};

TEST_CASE("each reader refuses each kind of bad row with file, line and reason, or leaves it out") {
  const TempFolder files;
  for (const Reader& reader : Readers()) {
    const Loaded whole = reader.load(files.Write("good.jsonl", Lines(reader.good)), 0, {});
    INFO(reader.name << ": " << whole.status());
    REQUIRE(whole.ok());
    for (const BadRow& bad : reader.bad) {
      const std::string path =
          files.Write("bad.jsonl", Lines({reader.good[0], reader.good[1], bad.row, reader.good[2]}));
      INFO(bad.row);
      CheckRefused(reader.load(path, 0, {}),
                   absl::StrCat(path, " has 1 bad row among 4: mend or remove them, or leave them out (bad_rows: skip)",
                                "\n  ", path, ":3: "),
                   bad.reason);
      const CapturedStderr said;
      const Loaded rest = reader.load(path, 0, kSkip);
      INFO(rest.status() << said.Text());
      REQUIRE(rest.ok());
      CHECK(*rest == *whole);
      CHECK(absl::StrContains(said.Text(), absl::StrCat(path, " has 1 bad row among 4, which are left out (bad_rows: ",
                                                        "skip):\n  ", path, ":3: ")));
      CHECK(absl::StrContains(said.Text(), bad.reason));
    }
  }
}

TEST_CASE("all kinds of bad rows among good ones change nothing of what is left, and are all named") {
  const TempFolder files;
  for (const Reader& reader : Readers()) {
    const Loaded whole = reader.load(files.Write("good.jsonl", Lines(reader.good)), 0, {});
    REQUIRE(whole.ok());
    std::vector<std::string> rows;
    for (size_t i = 0; i < reader.bad.size(); ++i) {
      rows.push_back(reader.bad[i].row);
      if (i < reader.good.size()) rows.push_back(reader.good[i]);
    }
    for (size_t i = reader.bad.size(); i < reader.good.size(); ++i) rows.push_back(reader.good[i]);
    const std::string path = files.Write("bad.jsonl", Lines(rows));
    const CapturedStderr said;
    const Loaded rest = reader.load(path, 0, kSkip);
    INFO(reader.name << ": " << rest.status());
    REQUIRE(rest.ok());
    CHECK(*rest == *whole);
    const Loaded refused = reader.load(path, 0, {});
    CheckRefused(refused, absl::StrCat(path, " has ", reader.bad.size(), " bad rows among ", rows.size(), ": mend"));
    for (size_t i = 0; i < std::min<size_t>(reader.bad.size(), 10); ++i) {
      CHECK(absl::StrContains(refused.status().message(), reader.bad[i].reason));
    }
  }
}

TEST_CASE("more bad rows than the limit are refused, with their number and the first ten") {
  const TempFolder files;
  const CapturedStderr said;
  for (const Reader& reader : Readers()) {
    std::vector<std::string> rows = {reader.good[0]};
    for (int i = 0; i < 25; ++i) rows.push_back("{" + std::to_string(i));
    const std::string path = files.Write("bad.jsonl", Lines(rows));
    CHECK(reader.load(path, 0, {.bad_rows = BadRows::kSkip, .max_bad_rows = 25}).ok());
    const Loaded refused = reader.load(path, 0, {.bad_rows = BadRows::kSkip, .max_bad_rows = 24});
    CheckRefused(refused, absl::StrCat(path,
                                       " has 25 bad rows among 26, more than max_bad_rows, 24: mend or remove "
                                       "them, or raise it\n  ",
                                       path, ":2: not valid JSON"));
    CHECK(absl::StrContains(refused.status().message(), path + ":11: "));
    CHECK_FALSE(absl::StrContains(refused.status().message(), path + ":12: "));
    CHECK(absl::EndsWith(refused.status().message(), "\n  and 15 more"));
    CHECK(absl::EndsWith(reader.load(path, 0, {}).status().message(), "\n  and 15 more"));
  }
}

TEST_CASE("the limit is a hundred rows of a data set, and may be none") {
  const TempFolder files;
  const CapturedStderr said;
  const Reader reader = LabelReader();
  std::string rows = Lines(reader.good);
  for (int i = 0; i < 100; ++i) absl::StrAppend(&rows, "{\n");
  CHECK(reader.load(files.Write("a.jsonl", rows), 0, kSkip).ok());
  CheckRefused(reader.load(files.Write("b.jsonl", rows + "{\n"), 0, kSkip),
               files / "b.jsonl" + " has 101 bad rows among 104, more than max_bad_rows, 100");
  const RowOptions none = {.bad_rows = BadRows::kSkip, .max_bad_rows = 0};
  CheckRefused(reader.load(files.Write("c.jsonl", Lines(reader.good) + "{\n"), 0, none),
               files / "c.jsonl" + " has 1 bad row among 4, more than max_bad_rows, 0");
  CHECK(reader.load(files.Write("d.jsonl", Lines(reader.good)), 0, none).ok());
}

TEST_CASE("a data set of bad rows alone is refused") {
  const TempFolder files;
  for (const Reader& reader : Readers()) {
    const std::string path = files.Write("bad.jsonl", Lines({reader.bad[0].row, reader.bad[1].row}));
    for (const BadRows bad_rows : {BadRows::kRefuse, BadRows::kSkip}) {
      CheckRefused(reader.load(path, 0, {.bad_rows = bad_rows}),
                   path + " has 2 bad rows among 2, and no other: mend them, or name another file\n");
    }
  }
}

TEST_CASE("bad rows are those that are read until there are enough samples") {
  const TempFolder files;
  const CapturedStderr said;
  for (const Reader& reader : Readers()) {
    const std::string path = files.Write("a.jsonl", Lines({reader.good[0], "{", reader.good[1], reader.good[2], "{"}));
    CHECK(reader.load(path, 1, {}).ok());
    CheckRefused(reader.load(path, 2, {}), path + " has 1 bad row among 3: ");
    const std::string good = files.Write("b.jsonl", Lines({reader.good[0], reader.good[1]}));
    CHECK(reader.load(path, 2, kSkip).value() == reader.load(good, 2, {}).value());
  }
}

TEST_CASE("the bad rows of a folder's files are counted together, each with its own file") {
  const TempFolder files;
  const CapturedStderr said;
  const Reader reader = LabelReader();
  files.Write("one.jsonl", Lines({reader.good[0], "{", reader.good[1]}));
  files.Write("two.jsonl", Lines({"[]", reader.good[2]}));
  const Loaded refused = reader.load(files.path(), 0, {});
  CheckRefused(refused, files.path() + " has 2 bad rows among 5: ");
  CHECK(absl::StrContains(refused.status().message(), "\n  " + files / "one.jsonl:2: not valid JSON"));
  CHECK(absl::StrContains(refused.status().message(), "\n  " + files / "two.jsonl:1: the row is not a JSON object"));
  CHECK(reader.load(files.path(), 0, kSkip).value() ==
        reader.load(files.Write("all/a.jsonl", Lines(reader.good)), 0, {}).value());
}

TEST_CASE("rank 0 alone warns, and what it says of each row is one short line") {
  const TempFolder files;
  const Reader reader = ChatReader();
  std::string path, wide;
  for (int i = 0; i < 3000; ++i) wide += "\xC3\xA9";
  for (const std::string name : {"a.jsonl", "aa.jsonl"}) {  // what is said of it ends within a character, or behind one
    path = files.Write(name, Lines({reader.good[0], R"({"messages":[{"role":"x\ny)" + wide + R"(","content":"a"}]})"}));
    const CapturedStderr said;
    REQUIRE(reader.load(path, 0, kSkip).ok());
    const std::string text = said.Text();
    INFO(text);
    CHECK(absl::StrContains(text, path + ":2: messages[0]: unknown role 'x\\ny"));
    CHECK(absl::EndsWith(text, "\xC3\xA9...\n"));
    CHECK(text.size() < 1000);
    CHECK(IsValidUtf8(text));
  }
  SetIdentity({.rank = 1, .world_size = 2, .host = "far"});
  const CapturedStderr said;
  CHECK(reader.load(path, 0, kSkip).ok());
  SetIdentity({});
  CHECK(said.Text().empty());
}

TEST_CASE("a file of another kind is not read to its end") {
  const TempFolder files;
  const CapturedStderr said;
  const Reader reader = LabelReader();
  std::string rows;
  for (int i = 0; i < 10050; ++i) absl::StrAppend(&rows, "text,", i, "\n");
  const std::string path = files.Write("a.txt", rows);
  CheckRefused(reader.load(path, 0, {}), path + " has 10000 bad rows among the first 10000, and no other: mend");
  CheckRefused(reader.load(files.Write("b.txt", Lines(reader.good) + rows), 0, kSkip),
               files / "b.txt" + " has 10000 bad rows among the first 10003, more than max_bad_rows, 100: ");
  const RowOptions all = {.bad_rows = BadRows::kSkip, .max_bad_rows = 20000};
  CHECK(reader.load(files / "b.txt", 0, all).ok());
}

TEST_CASE("a line that is too long is left out whole") {
  const TempFolder files;
  const CapturedStderr said;
  const Reader reader = LabelReader();
  const std::string half(size_t{33} << 20, 'x');
  // What comes behind the first 64 MiB would be a row of its own.
  const std::string path = files.Write(
      "a.jsonl", Lines({reader.good[0], "{\"text\": \"" + half + half + "\"}", reader.good[1], reader.good[2]}));
  CheckRefused(reader.load(path, 0, {}), absl::StrCat(path, " has 1 bad row among 4: mend or remove them, or leave ",
                                                      "them out (bad_rows: skip)\n  ", path, ":2: the line is longer"));
  CHECK(reader.load(path, 0, kSkip).value() == reader.load(files.Write("b.jsonl", Lines(reader.good)), 0, {}).value());
}

TEST_CASE("a file that is damaged makes no bad rows") {
  const TempFolder files;
  const std::string header("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", 10);
  const absl::Status failed = LabelReader().load(files.Write("a.jsonl.gz", header + "x"), 0, kSkip).status();
  INFO(failed);
  CHECK(failed.code() == absl::StatusCode::kDataLoss);
  CHECK(absl::StrContains(failed.message(), "reading failed in the line after line 0"));
  CHECK(absl::StrContains(failed.message(), "a.jsonl.gz: damaged gzip data"));
}

}  // namespace
}  // namespace distill
