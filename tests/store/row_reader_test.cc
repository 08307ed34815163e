// Rows of every format but Parquet (tests/golden/rows_golden.py has that).
#include "libdistill/store/row_reader.h"

#include <cstdlib>

#include "absl/strings/match.h"
#include "tests/store/row_files.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill::testing {
namespace {

std::string Contents(const TempFolder& folder, const std::string& name, const std::string& contents) {
  return RowsOf(folder.Write(name, contents));
}

TEST_CASE("CSV rows are objects of texts, with quotes, newlines and Windows line ends") {
  const TempFolder folder;
  CHECK(Contents(folder, "a.csv", "a,b\n1,x\n2,\"y, \"\"z\"\"\"\n\n3,\"two\nlines\"\n4,\n") ==
        "2 {a:'1',b:'x'}\n3 {a:'2',b:'y, \"z\"'}\n5 {a:'3',b:'two\nlines'}\n7 {a:'4',b:''}\n");
  CHECK(Contents(folder, "a.csv",
                 "\xEF\xBB\xBF"
                 "a,b\r\n1,x\r\n\"2\",y") == "2 {a:'1',b:'x'}\n3 {a:'2',b:'y'}\n");
  CHECK(Contents(folder, "a.tsv", "a\tb\n1,0\tx\n") == "2 {a:'1,0',b:'x'}\n");
  CHECK(Contents(folder, "a.csv", "a,b\n5\" disk,x\"y\"\n") == "2 {a:'5\" disk',b:'x\"y\"'}\n");
  CHECK(Contents(folder, "a.csv", "a,b\n") == "");
  CHECK(Contents(folder, "a.csv", "a\n\"\r\n\"\r\n") == "2 {a:'\r\n'}\n");
  CHECK(RowsOf(folder.Write("a.csv", "a,b,c\n1,2,3\n"), {.columns = {"c", "a"}}) == "2 {a:'1',c:'3'}\n");
}

TEST_CASE("CSV without a line of names has those that are given") {
  const TempFolder folder;
  const RowFileOptions named{.csv_names = {"label", "text"}};
  CHECK(RowsOf(folder.Write("a.csv", "2,\"x\ny\"\n1,z\n"), named) ==
        "1 {label:'2',text:'x\ny'}\n3 {label:'1',text:'z'}\n");
  CHECK(RowsOf(folder.Write("a.csv", "1,2\n"), {.columns = {"text"}, .csv_names = {"label", "text"}}) ==
        "1 {text:'2'}\n");
  CHECK(absl::StrContains(RowsOf(folder.Write("a.csv", "1,2,3\n"), named),
                          "a.csv:1: the row has 3 values, but csv_columns names 2 columns"));
  CHECK(absl::StrContains(RowsOf(folder.Write("a.csv", "1,2\n"), {.csv_names = {"a", "a"}}),
                          "csv_columns names the columns, each by a name of its own"));
}

TEST_CASE("CSV that is broken is named by file and line, and what follows is read") {
  const TempFolder folder;
  const std::string rows = Contents(folder, "a.csv", "a,b\n1\n2,x\n3,y,z\n4,\xff\n5,v\n");
  CHECK(absl::StrContains(rows, "a.csv:2: the row has 1 values, but the first line names 2 columns"));
  CHECK(absl::StrContains(rows, "\n3 {a:'2',b:'x'}\n"));
  CHECK(absl::StrContains(rows, "a.csv:4: the row has 3 values"));
  CHECK(absl::StrContains(rows, "a.csv:5: the row is not valid UTF-8"));
  CHECK(absl::StrContains(rows, "\n6 {a:'5',b:'v'}\n"));
  CHECK(absl::StrContains(Contents(folder, "a.csv", "a,a\n1,2\n"), "each by a name of its own"));
  CHECK(absl::StrContains(Contents(folder, "a.csv", ""), "each by a name of its own"));
  CHECK(
      absl::StrContains(RowsOf(folder.Write("a.csv", "a,b\n"), {.columns = {"c"}}), "has no column 'c'; it has a, b"));
  CHECK(absl::StrContains(Contents(folder, "a.csv", "a\n\"" + std::string(size_t{66} << 20, 'x')),
                          "is a quote never closed?"));
}

TEST_CASE("a large CSV file is cut between rows, also where values hold newlines") {
  const TempFolder folder;
  std::string contents = "n,text\n", wanted;
  for (int i = 0; i < 100'000; ++i) {
    absl::StrAppend(&contents, i, ",\"a\nb ", i, "\"\n");
    absl::StrAppend(&wanted, 2 * i + 2, " {n:'", i, "',text:'a\nb ", i, "'}\n");
  }
  CHECK(Contents(folder, "a.csv", contents) == wanted);
}

TEST_CASE("compressed files are read as what they hold") {
  const TempFolder folder;
  std::string contents, wanted;
  for (int i = 0; i < 200'000; ++i) {
    absl::StrAppend(&contents, "{\"n\": ", i, "}\n");
    absl::StrAppend(&wanted, i + 1, " {n:", i, "}\n");
  }
  const std::string path = folder.Write("a.jsonl", contents);
  REQUIRE(std::system(
              absl::StrCat("cd ", folder.path(), " && gzip -k a.jsonl && head -c 500000 a.jsonl | gzip > two.gz && ",
                           "tail -c +500001 a.jsonl | gzip >> two.gz && head -c 100000 a.jsonl.gz > cut.jsonl.gz && ",
                           "printf 'a,b\\n1,2\\n' | gzip > c.csv.gz")
                  .c_str()) == 0);
  CHECK(RowsOf(path) == wanted);
  CHECK(RowsOf(folder / "a.jsonl.gz") == wanted);
  CHECK(RowsOf(folder / "two.gz") == wanted);
  CHECK(RowsOf(folder / "c.csv.gz") == "2 {a:'1',b:'2'}\n");
  const std::string cut = RowsOf(folder / "cut.jsonl.gz");
  CHECK(absl::StartsWith(cut, "1 {n:0}\n2 {n:1}\n"));
  CHECK(absl::StrContains(cut, "DATA_LOSS"));
  CHECK(absl::StrContains(cut, "cut.jsonl.gz: damaged gzip data after about 100000 bytes: it ends in the middle"));
  std::string damaged = folder.Read("a.jsonl.gz");
  damaged[damaged.size() / 2] ^= 4;
  CHECK(absl::StrContains(Contents(folder, "d.jsonl.gz", damaged), "damaged gzip data"));
  if (std::system("command -v zstd > /dev/null") != 0) {
    std::printf("skipped in part: the program zstd is not installed\n");
    return;
  }
  REQUIRE(std::system(absl::StrCat(
                          "cd ", folder.path(), " && zstd -q a.jsonl && head -c 500000 a.jsonl | zstd -q > two.zst && ",
                          "tail -c +500001 a.jsonl | zstd -q >> two.zst && head -c 20000 a.jsonl.zst > cut.jsonl.zst")
                          .c_str()) == 0);
  CHECK(RowsOf(folder / "a.jsonl.zst") == wanted);
  CHECK(RowsOf(folder / "two.zst") == wanted);
  CHECK(absl::StrContains(RowsOf(folder / "cut.jsonl.zst"), "damaged zstd data"));
}

TEST_CASE("a name that promises another format than the bytes are is refused") {
  const TempFolder folder;
  CHECK(absl::StrContains(Contents(folder, "a.parquet", "nonsense"), "its name says Parquet, but its bytes are not"));
  CHECK(absl::StrContains(Contents(folder, "a.parquet", ""), "its name says Parquet"));
  CHECK(absl::StrContains(Contents(folder, "a.jsonl.gz", "nonsense"), "its name says gzip"));
  CHECK(Contents(folder, "a.csv", "{\"a\": 1}\n") == "1 {a:1}\n");
}

}  // namespace
}  // namespace distill::testing
