// Files of rows that are no JSON Lines: what they are, and the command that converts them.
#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "libdistill/store/other_formats.h"
#include "tests/data/chat_files.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

TEST_CASE("a file of another format is called by its name, by its bytes or its ending") {
  const TempFolder files;
  struct Case {
    std::string name, contents, what;
  };
  const Case cases[] = {
      {"a.jsonl", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "a pointer of Git LFS"},
      {"a.arrow", "ARROW1", "is Arrow"},
      {"a.hdf5", "no matter", "is HDF5, which holds recordings and no rows"},
      {"b.dat", "\x89HDF\r\n\x1a\n", "distill_data count '"},
      {"b.jsonl", "\xfd\x37zXZ", "compressed by xz"},
      {"a.jsonl.bz2", "BZh9", "compressed by bzip2"},
      {"a.zip", "PK\x03\x04", "a zip archive"},
      {"a.json", "[\n  {\"messages\": []}\n]\n", "is one JSON array"},
      {"c.jsonl", R"([{"messages": []}])", "is one JSON array"}};
  for (const Case& c : cases) {
    const std::string path = files.Write(c.name, c.contents);
    for (const absl::Status& status : {CheckIsNoOtherFormat(path, c.contents), LoadChat(path).status()}) {
      INFO(c.name << ": " << status);
      CHECK(absl::IsInvalidArgument(status));
      CHECK(absl::StartsWith(status.message(), path));
      CHECK(absl::StrContains(status.message(), c.what));
    }
  }
  CHECK(CheckIsNoOtherFormat("d.jsonl", "[1, 2]\n").ok());
  CHECK(CheckIsNoOtherFormat("rows.zip", "{}\n").ok());
}

TEST_CASE("what a message says to run makes JSON Lines of it") {
  const TempFolder files;
  const std::string row = R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
  const std::string array = files.Write("rows.json", "[" + row + ",\n" + row + "]");
  const std::string message(LoadChat(array).status().message());
  const size_t command = message.find("python3");
  REQUIRE(command != std::string::npos);
  REQUIRE(std::system(message.substr(command).c_str()) == 0);
  const auto data = LoadChat(array + ".jsonl");
  REQUIRE(data.ok());
  CHECK(data->summary == "rows 2, used 2");
}

TEST_CASE("a folder of the datasets library, or of files of another format, is called one") {
  const TempFolder saved, other, split;
  saved.Write("state.json", "{}");
  saved.Write("data-00000-of-00001.arrow", "ARROW1");
  other.Write("README.md", "x");
  other.Write("train-00000-of-00001.feather", "ARROW1");
  split.Write("validation.jsonl", "{}\n");
  for (const auto& [folder, what] : {std::pair(saved.path(), "was saved by the datasets library"),
                                     std::pair(other.path(), "train-00000-of-00001.feather is Arrow"),
                                     std::pair(split.path(),
                                               "no file matches train*.jsonl, .parquet, .csv or .tsv; the folder holds "
                                               "validation.jsonl")}) {
    ChatDatasetOptions options;
    options.split = "train";
    const absl::Status status = LoadChat(folder, options).status();
    INFO(status);
    CHECK(absl::StrContains(status.message(), folder));
    CHECK(absl::StrContains(status.message(), what));
  }
}

}  // namespace
}  // namespace distill
