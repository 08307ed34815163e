#include "libdistill/store/files.h"
#include "libdistill/store/file_writer.h"
#include "libdistill/store/readable_file.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "libdistill/store/byte_stream.h"
#include "libdistill/store/store.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"

namespace distill {
namespace {

const std::string kFolder = BuildFolder() + "/store_files_test";

// A file of a store whose answers take a while.
class SlowFile : public ReadableFile {
 public:
  const std::string& path() const override { return path_; }
  int64_t size() const override { return int64_t{6} << 20; }
  const std::string& version() const override { return path_; }
  absl::Status ReadAt(int64_t offset, absl::Span<char> out) const override {
    const int under_way = ++under_way_;
    for (int most = most_; most < under_way && !most_.compare_exchange_weak(most, under_way);) {
    }
    absl::SleepFor(absl::Milliseconds(20));
    for (size_t i = 0; i < out.size(); ++i) out[i] = ByteAt(offset + static_cast<int64_t>(i));
    --under_way_;
    return absl::OkStatus();
  }
  static char ByteAt(int64_t offset) { return static_cast<char>(offset % 251); }
  int most_under_way() const { return most_; }

 private:
  const std::string path_ = "s3://bucket/key";
  mutable std::atomic<int> under_way_ = 0, most_ = 0;
};

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

TEST_CASE("a stream has as many ranges under way as store_read_ahead says, and gives them in order") {
  for (const int64_t read_ahead : {0, 1, 3}) {
    SetStoreOptions({.read_ahead = read_ahead, .range_mib = 1});
    const auto file = std::make_shared<SlowFile>();
    const auto stream = StreamFile(file);
    SetStoreOptions({});
    REQUIRE(stream.ok());
    std::string bytes(1 << 19, '\0');
    int64_t at = 0, wrong = 0;
    for (size_t size = 1; size > 0;) {
      const absl::StatusOr<size_t> got = (*stream)->Read(absl::MakeSpan(bytes));
      REQUIRE(got.ok());
      size = *got;
      for (size_t i = 0; i < size; ++i) wrong += bytes[i] != SlowFile::ByteAt(at++);
    }
    INFO("read_ahead " << read_ahead);
    CHECK(at == file->size());
    CHECK(wrong == 0);
    CHECK(file->most_under_way() <= std::max<int64_t>(1, read_ahead));
    CHECK(file->most_under_way() >= std::min<int64_t>(2, read_ahead));  // of three, on a machine that does other things
  }
}

}  // namespace distill
