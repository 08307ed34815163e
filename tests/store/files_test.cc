#include "libdistill/store/files.h"

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

}  // namespace distill
