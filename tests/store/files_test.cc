#include "libdistill/store/files.h"
#include "libdistill/store/file_writer.h"
#include "libdistill/store/readable_file.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

const std::string kFolder = std::string(DISTILL_BUILD_DIR) + "/store_files_test";

}  // namespace

TEST_CASE("a file is read whole, zeros and newlines included") {
  std::filesystem::create_directories(kFolder);
  const std::string contents = std::string("a\0b\r\n", 5) + std::string(200000, 'x');
  std::ofstream(kFolder + "/whole", std::ios::binary) << contents;
  std::ofstream(kFolder + "/empty");
  CHECK(*ReadFile(kFolder + "/whole") == contents);
  CHECK(ReadFile(kFolder + "/empty")->empty());
  std::filesystem::remove_all(kFolder);
}

TEST_CASE("what cannot be read is named, with the reason") {
  std::filesystem::create_directories(kFolder);
  const absl::Status missing = ReadFile(kFolder + "/none.json").status();
  CHECK(missing.code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(missing.message(), "none.json"));
  const absl::Status folder = ReadFile(kFolder).status();
  CHECK(folder.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(folder.message(), "is a folder"));
  CHECK(ReadFile("").status().code() == absl::StatusCode::kInvalidArgument);
  std::filesystem::remove_all(kFolder);
}

TEST_CASE("URLs of no store are refused by name") {
  for (const absl::Status& status :
       {ReadFile("https://example.org/x").status(), ListFiles("gs://bucket/folder", "", "").status()}) {
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), "s3://BUCKET/KEY"));
  }
  CHECK(!FileExists("gs://bucket/x"));
  CHECK(absl::StrContains(RequireLocalPath("s3://bucket/data.jsonl").message(), "give a local one"));
  CHECK(absl::StrContains(RequireLocalPath("https://example.org/x").message(), "URLs are not supported"));
  CHECK(RequireLocalPath("/tmp/x:y").ok());
}

TEST_CASE("a folder lists its files by prefix and suffix, sorted, without folders") {
  std::filesystem::create_directories(kFolder + "/train_folder.jsonl");
  for (const char* name : {"train-2.jsonl", "train-1.jsonl", "test.jsonl", "train.txt"}) {
    std::ofstream(kFolder + "/" + name) << "x";
  }
  CHECK(*ListFiles(kFolder, "train", ".jsonl") == std::vector<std::string>{"train-1.jsonl", "train-2.jsonl"});
  CHECK(ListFiles(kFolder, "", "")->size() == 4);
  CHECK(ListFiles(kFolder + "/none", "", "").status().code() == absl::StatusCode::kNotFound);
  CHECK(FileExists(kFolder + "/test.jsonl"));
  CHECK_FALSE(FileExists(kFolder));
  CHECK(FolderExists(kFolder));
  std::filesystem::remove_all(kFolder);
  CHECK_FALSE(FolderExists(kFolder));
}

TEST_CASE("paths are joined by one slash") {
  CHECK(JoinPath("a", "b") == "a/b");
  CHECK(JoinPath("a/", "b") == "a/b");
  CHECK(JoinPath("", "b") == "b");
}

TEST_CASE("a file that becomes shorter while it is read fails, and a disk that fails is told from it") {
  std::filesystem::create_directories(kFolder);
  const std::string path = kFolder + "/shrinks";
  std::ofstream(path) << std::string(1000, 'x');
  const auto file = *OpenFile(path);
  std::filesystem::resize_file(path, 10);
  std::string out(100, '\0');
  const absl::Status cut = file->ReadAt(500, absl::MakeSpan(out));
  CHECK(absl::IsDataLoss(cut));
  CHECK(absl::StrContains(cut.message(), "was it cut?"));
  CHECK(file->ReadAt(950, absl::MakeSpan(out)).code() == absl::StatusCode::kOutOfRange);
  std::filesystem::remove_all(kFolder);
}

TEST_CASE("a file that is written appears as a whole, and a folder that is not there is named") {
  std::filesystem::create_directories(kFolder);
  const std::string path = kFolder + "/written";
  {
    auto file = *CreateFile(path);
    REQUIRE(file->Append("half") == absl::OkStatus());
    CHECK(!FileExists(path));
  }
  CHECK(ListFiles(kFolder, "", "")->empty());
  auto file = *CreateFile(path);
  REQUIRE(file->Append("one ") == absl::OkStatus());
  REQUIRE(file->Append("two") == absl::OkStatus());
  REQUIRE(file->Commit() == absl::OkStatus());
  CHECK(*ReadFile(path) == "one two");
  CHECK(ListFiles(kFolder, "", "")->size() == 1);
  CHECK(absl::IsNotFound(CreateFile(kFolder + "/none/written").status()));
  std::filesystem::remove_all(kFolder);
}

}  // namespace distill
