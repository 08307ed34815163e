#include <cstring>
#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "libdistill/store/safetensors.h"
#include "libdistill/store/torch_file.h"
#include "tests/support/catch.h"
#include "tests/support/folders.h"

// tests/golden/torch_files_golden.py made the files.
namespace distill {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = GoldenFolder() + "/torch_files";

void CheckSame(const TorchFile& file, const SafetensorsFile& golden) {
  CHECK(file.tensors().size() == golden.tensors().size());
  for (const auto& [name, about] : golden.tensors()) {
    INFO(name);
    const auto ours = file.Load(name), expected = golden.Load(name);
    INFO(ours.status());
    REQUIRE(ours.ok());
    REQUIRE(expected.ok());
    CHECK(ours->dtype == about.dtype);
    CHECK(ours->shape == about.shape);
    REQUIRE(ours->size_bytes == about.size_bytes);
    CHECK(
        (about.size_bytes == 0 || std::memcmp(ours->data, expected->data, static_cast<size_t>(about.size_bytes)) == 0));
  }
}

TEST_CASE("what torch.save writes, in either format, is read to the last bit") {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".bin") continue;
    INFO(entry.path());
    const std::string path = entry.path();
    const auto golden = SafetensorsFile::Open(fs::path(path).replace_extension(".safetensors").string());
    INFO(golden.status());
    REQUIRE(golden.ok());
    const auto mapped = TorchFile::Open(path);
    INFO(mapped.status());
    REQUIRE(mapped.ok());
    CheckSame(*mapped, *golden);
    const auto opened = OpenFile(path);
    REQUIRE(opened.ok());
    const auto by_ranges = TorchFile::Open(*opened);  // as out of another store
    REQUIRE(by_ranges.ok());
    CheckSame(*by_ranges, *golden);
    ++files;
  }
  CHECK(files == 24);
}

TEST_CASE("a file that runs a program in Python is refused by the program's name, and runs nothing") {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kFolder / "evil")) {
    const std::string path = entry.path();
    const absl::Status status = TorchFile::Open(path).status();
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), "posix.system"));
    CHECK(absl::StrContains(status.message(), path));
    CHECK_FALSE(fs::exists(kFolder / "ran"));
    ++files;
  }
  CHECK(files == 4);
}

}  // namespace
}  // namespace distill
