#include "libdistill/store/safetensors.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

namespace fs = std::filesystem;

using testing::TempFolder;

std::string LittleEndian(uint64_t value) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// A file of this header and as many bytes of data.
absl::Status OpenWith(const std::string& header, size_t data_bytes) {
  const TempFolder folder;
  WriteBytes(folder / "a.safetensors", LittleEndian(header.size()) + header + std::string(data_bytes, 'x'));
  return SafetensorsFile::Open(folder / "a.safetensors").status();
}

void CheckDamaged(const absl::Status& status, const std::string& message) {
  INFO(status);
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK(absl::StrContains(status.message(), message));
  CHECK(absl::StrContains(status.message(), ".safetensors"));
}

TensorView ViewOf(const std::vector<float>& values, std::vector<int64_t> shape) {
  return {.dtype = DType::kFloat32,
          .shape = std::move(shape),
          .data = values.data(),
          .size_bytes = static_cast<int64_t>(values.size() * sizeof(float))};
}

TEST_CASE("what is written is read again, aligned to its elements") {
  const TempFolder folder;
  std::vector<float> values(6);
  std::iota(values.begin(), values.end(), 0.5f);
  const std::vector<int64_t> wide = {1, -2, 3};
  const uint8_t byte = 7;
  const std::map<std::string, TensorView> tensors = {
      {"a \"quoted\"\n name", ViewOf(values, {2, 3})},
      {"byte", {.dtype = DType::kUInt8, .shape = {}, .data = &byte, .size_bytes = 1}},
      {"empty", {.dtype = DType::kBFloat16, .shape = {0, 4}, .data = nullptr, .size_bytes = 0}},
      {"wide", {.dtype = DType::kInt64, .shape = {3}, .data = wide.data(), .size_bytes = 24}}};
  REQUIRE(WriteSafetensors(folder / "a.safetensors", tensors, {{"format", "pt"}}).ok());
  const auto file = SafetensorsFile::Open(folder / "a.safetensors");
  INFO(file.status());
  REQUIRE(file.ok());
  CHECK(file->metadata() == std::map<std::string, std::string>{{"format", "pt"}});
  REQUIRE(file->tensors().size() == tensors.size());
  for (const auto& [name, view] : tensors) {
    const TensorView* read = file->Find(name);
    REQUIRE(read != nullptr);
    CHECK(read->dtype == view.dtype);
    CHECK(read->shape == view.shape);
    REQUIRE(read->size_bytes == view.size_bytes);
    CHECK(read->data == nullptr);
    const auto loaded = file->Load(name);
    REQUIRE(loaded.ok());
    CHECK(reinterpret_cast<uintptr_t>(loaded->data) % SizeOf(view.dtype) == 0);
    CHECK((view.size_bytes == 0 || std::memcmp(loaded->data, view.data, view.size_bytes) == 0));
  }
  CHECK(file->Find("wid") == nullptr);
}

TEST_CASE("views outlive moves and copies of their file") {
  const TempFolder folder;
  const std::vector<float> values = {1, 2};
  REQUIRE(WriteSafetensors(folder / "a.safetensors", {{"a", ViewOf(values, {2})}}, {}).ok());
  auto file = SafetensorsFile::Open(folder / "a.safetensors");
  REQUIRE(file.ok());
  const SafetensorsFile copy = *file;
  file = absl::NotFoundError("gone");
  CHECK(static_cast<const float*>(copy.Load("a")->data)[1] == 2);
}

int64_t ResidentFilePages() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0, of_files = 0;
  file >> size >> resident >> of_files;
  return of_files;
}

TEST_CASE("a tensor that was forgotten takes no memory, and reads the same again") {
  constexpr size_t kCount = 4 << 20;  // 16 MiB
  const TempFolder folder;
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), 1.0f);
  REQUIRE(WriteSafetensors(folder / "a.safetensors", {{"a", ViewOf(values, {kCount})}}, {}).ok());
  const auto file = SafetensorsFile::Open(folder / "a.safetensors");
  REQUIRE(file.ok());
  const auto is_same = [&] { return std::memcmp(file->Load("a")->data, values.data(), kCount * sizeof(float)) == 0; };
  CHECK(is_same());
  const int64_t read = ResidentFilePages();
  file->Forget("a");
  CHECK(read - ResidentFilePages() > static_cast<int64_t>(kCount * sizeof(float)) / sysconf(_SC_PAGESIZE) / 2);
  CHECK(is_same());
  file->Forget("nothing of this name");
}

TEST_CASE("a tensor whose bytes do not fit its shape is not written") {
  const TempFolder folder;
  const std::vector<float> values = {1, 2};
  const absl::Status status = WriteSafetensors(folder / "a.safetensors", {{"a", ViewOf(values, {3})}}, {});
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_FALSE(fs::exists(folder / "a.safetensors"));
  CHECK(WriteSafetensors(folder / "no/such/folder", {}, {}).code() == absl::StatusCode::kNotFound);
}

TEST_CASE("a missing file is NotFound and names itself") {
  const auto file = SafetensorsFile::Open("/nonexistent/model.safetensors");
  CHECK(file.status().code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(file.status().message(), "/nonexistent/model.safetensors"));
}

TEST_CASE("every truncation of a file is DataLoss") {
  const TempFolder folder;
  const std::vector<float> values = {1, 2, 3, 4};
  const std::string path = folder / "a.safetensors";
  REQUIRE(WriteSafetensors(path, {{"a", ViewOf(values, {2, 2})}}, {}).ok());
  const auto size = fs::file_size(path);
  for (size_t left = size; left-- > 0;) {
    fs::resize_file(path, left);
    CHECK(SafetensorsFile::Open(path).status().code() == absl::StatusCode::kDataLoss);
  }
}

TEST_CASE("damaged headers are DataLoss") {
  const TempFolder folder;
  for (const uint64_t length :
       {~uint64_t{0}, ~uint64_t{0} - 7, uint64_t{1} << 63, uint64_t{100'000'001}, uint64_t{9}}) {
    WriteBytes(folder / "a.safetensors", LittleEndian(length) + "{}      ");
    CheckDamaged(SafetensorsFile::Open(folder / "a.safetensors").status(), "header");
  }
  CheckDamaged(OpenWith("", 0), "no valid JSON");
  CheckDamaged(OpenWith("[1]", 0), "no JSON object");
  CheckDamaged(OpenWith("{\"a\"", 0), "no valid JSON");
  CheckDamaged(OpenWith(std::string("{\"\xff\":1}"), 0), "no valid JSON");
  CheckDamaged(OpenWith("{\"a\":" + std::string(1'000'000, '['), 0), "nested deeper");
  CheckDamaged(OpenWith(R"({"__metadata__":{"a":1}})", 0), "metadata");
}

TEST_CASE("damaged entries are DataLoss and name their tensor") {
  const auto entry = [](const std::string& name, const std::string& shape, const std::string& offsets) {
    return absl::StrCat("\"", name, "\":{\"dtype\":\"F32\",\"shape\":", shape, ",\"data_offsets\":", offsets, "}");
  };
  CHECK(OpenWith("{" + entry("a", "[2]", "[0,8]") + "}", 8).ok());
  CheckDamaged(OpenWith("{" + entry("a", "[2]", "[0,8]") + "," + entry("a", "[2]", "[8,16]") + "}", 16), "twice");
  CheckDamaged(OpenWith("{" + entry("a", "[2]", "[0,8]") + "," + entry("b", "[2]", "[4,12]") + "}", 12), "overlaps");
  CheckDamaged(OpenWith("{" + entry("a", "[2]", "[0,8]") + "," + entry("b", "[2]", "[0,8]") + "}", 8), "overlaps");
  CheckDamaged(OpenWith("{" + entry("a", "[1]", "[0,4]") + "," + entry("b", "[1]", "[8,12]") + "}", 12), "hole");
  CheckDamaged(OpenWith("{" + entry("a", "[1]", "[4,8]") + "}", 8), "hole");
  CheckDamaged(OpenWith("{" + entry("a", "[1]", "[0,4]") + "}", 8), "belong to none");
  CheckDamaged(OpenWith("{" + entry("a", "[2]", "[0,8]") + "}", 4), "tensor \"a\"");
  CheckDamaged(OpenWith("{" + entry("a", "[2]", "[8,0]") + "}", 8), "data_offsets");
  CheckDamaged(OpenWith("{" + entry("a", "[3]", "[0,8]") + "}", 8), "takes 12 bytes");
  CheckDamaged(OpenWith("{" + entry("a", "[2]", "[0,8,9]") + "}", 8), "data_offsets");
  CheckDamaged(OpenWith("{" + entry("a", "[-2]", "[0,8]") + "}", 8), "no size");
  CheckDamaged(OpenWith("{" + entry("a", "[2.0]", "[0,8]") + "}", 8), "no size");
  CheckDamaged(OpenWith("{" + entry("a", "[18446744073709551617]", "[0,8]") + "}", 8), "no size");
  CheckDamaged(OpenWith("{" + entry("a", "[4611686018427387904,4]", "[0,0]") + "}", 0), "overflows");
  CheckDamaged(OpenWith("{" + entry("a", "[0,9223372036854775809]", "[0,0]") + "}", 0), "overflows");
  CheckDamaged(OpenWith(R"({"a":{"shape":[],"data_offsets":[0,0]}})", 0), "dtype");
  CheckDamaged(OpenWith(R"({"a":7})", 0), "tensor \"a\"");
  const absl::Status unknown = OpenWith(R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}})", 1);
  CHECK(unknown.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(unknown.message(), "F4"));
}

// Reads of a file that is not mapped, as of another store.
class CountedFile : public ReadableFile {
 public:
  explicit CountedFile(std::string bytes) : file_(MakeMemoryFile("mem://a.safetensors", std::move(bytes))) {}
  const std::string& path() const override { return file_->path(); }
  int64_t size() const override { return file_->size(); }
  const std::string& version() const override { return file_->version(); }
  absl::Status ReadAt(int64_t offset, absl::Span<char> out) const override {
    if (fails) return absl::UnavailableError("the store is gone");
    bytes_read += static_cast<int64_t>(out.size());
    return file_->ReadAt(offset, out);
  }
  mutable int64_t bytes_read = 0;
  bool fails = false;

 private:
  const std::shared_ptr<const ReadableFile> file_;
};

TEST_CASE("of a file that is not local the header is read, and then only the tensors that are asked for") {
  const TempFolder folder;
  std::vector<float> large(1 << 18), small = {1, 2, 3};
  std::iota(large.begin(), large.end(), 0.0f);
  const std::map<std::string, TensorView> tensors = {{"large", ViewOf(large, {1 << 9, 1 << 9})},
                                                     {"small", ViewOf(small, {3})}};
  REQUIRE(WriteSafetensors(folder / "a.safetensors", tensors, {{"made", "here"}}).ok());
  const auto store = std::make_shared<CountedFile>(folder.Read("a.safetensors"));
  auto file = SafetensorsFile::Open(store);
  INFO(file.status());
  REQUIRE(file.ok());
  CHECK(file->metadata().at("made") == "here");
  CHECK(file->Find("large")->shape == std::vector<int64_t>{1 << 9, 1 << 9});
  CHECK(store->bytes_read < 2000);
  const auto view = file->Load("small");
  REQUIRE(view.ok());
  CHECK(store->bytes_read < 2000);
  const auto all = file->Load("large");
  REQUIRE(all.ok());
  file->Forget("large");  // the view holds the bytes, the file none
  store->fails = true;
  const absl::Status failed = file->Load("large").status();
  CHECK(failed.code() == absl::StatusCode::kUnavailable);
  CHECK(absl::StrContains(failed.message(), "mem://a.safetensors: tensor \"large\""));
  file = absl::NotFoundError("gone");
  CHECK(std::memcmp(all->data, large.data(), large.size() * sizeof(float)) == 0);
  CHECK(static_cast<const float*>(view->data)[2] == 3);
}

TEST_CASE("damage is found in a file that is not local, too") {
  const TempFolder folder;
  const std::vector<float> values = {1, 2, 3, 4};
  REQUIRE(WriteSafetensors(folder / "a.safetensors", {{"a", ViewOf(values, {2, 2})}}, {}).ok());
  const std::string bytes = folder.Read("a.safetensors");
  for (size_t left = bytes.size(); left-- > 0;) {
    const auto file = SafetensorsFile::Open(MakeMemoryFile("mem://a.safetensors", bytes.substr(0, left)));
    CHECK(file.status().code() == absl::StatusCode::kDataLoss);
  }
}

TEST_CASE("small integers and bools are read as wider types, with the same values") {
  const std::string header = R"({"bits":{"dtype":"BOOL","shape":[2],"data_offsets":[6,8]},)"
                             R"("narrow":{"dtype":"I8","shape":[2],"data_offsets":[4,6]},)"
                             R"("short":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}})";
  const auto file = SafetensorsFile::Open(MakeMemoryFile(
      "a.safetensors", LittleEndian(header.size()) + header + std::string("\xfe\xff\x03\0\xff\x7f\1\0", 8)));
  INFO(file.status());
  REQUIRE(file.ok());
  CHECK(file->Find("narrow")->size_bytes == 8);
  const auto numbers = [&](const char* name) {
    const auto view = file->Load(name);
    REQUIRE(view.ok());
    CHECK(view->dtype == DType::kInt32);
    const auto* values = static_cast<const int32_t*>(view->data);
    return std::vector<int32_t>(values, values + 2);
  };
  CHECK(numbers("narrow") == std::vector<int32_t>{-1, 127});
  CHECK(numbers("short") == std::vector<int32_t>{-2, 3});
  CHECK(file->Find("bits")->dtype == DType::kUInt8);
  CHECK(static_cast<const uint8_t*>(file->Load("bits")->data)[0] == 1);
}

}  // namespace
}  // namespace distill
