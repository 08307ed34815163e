#include "libdistill/checkpoint/checksums.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/checkpoint/layout.h"
#include "tests/checkpoint/saved.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::FlipByte;
using testing::TempFolder;

constexpr uint64_t kPart = 1000;

CheckpointManifest ManifestOf(const TempFolder& folder, const std::vector<std::string>& names) {
  CheckpointManifest manifest{
      .format_version = kCheckpointFormatVersion, .step = 5, .files = {}, .part_bytes = kPart, .checksum = ""};
  for (const std::string& name : names) manifest.files.push_back(Checksum(folder.path(), name, kPart).value());
  return manifest;
}

}  // namespace

TEST_CASE("files of all sizes around a part's borders have their parts, and a changed byte is found in its own") {
  const TempFolder folder;
  for (const uint64_t size : {0, 1, 999, 1000, 1001, 1999, 2000, 2001, 5500}) {
    CAPTURE(size);
    folder.Write("data", std::string(size, 'x'));
    folder.Write("before", std::string(1500, 'y'));
    const CheckpointManifest manifest = ManifestOf(folder, {"before", "data"});
    CHECK(manifest.files[1].size_bytes == size);
    CHECK(manifest.files[1].parts.size() == std::max<uint64_t>(1, (size + kPart - 1) / kPart));
    CHECK(CheckAllParts(folder.path(), manifest) == absl::OkStatus());
    const auto parsed = ParseCheckpointManifest(Serialize(manifest), "a manifest");
    REQUIRE(parsed.ok());
    CHECK(Serialize(*parsed) == Serialize(manifest));
    for (uint64_t offset = 0; offset < size; offset += 499) {
      FlipByte(folder / "data", static_cast<int64_t>(offset));
      for (int64_t part = 0; part < CountParts(manifest); ++part) {
        const bool is_here = part == static_cast<int64_t>(2 + offset / kPart);
        CHECK(CheckPart(folder.path(), manifest, part).ok() == !is_here);
      }
      const absl::Status damaged = CheckAllParts(folder.path(), manifest);
      CHECK(damaged.code() == absl::StatusCode::kDataLoss);
      CHECK(absl::StrContains(damaged.message(), folder / "data is damaged: its checksum differs"));
      FlipByte(folder / "data", static_cast<int64_t>(offset));
    }
  }
}

TEST_CASE("a part that the file has no longer is damage, and a file that is gone is not found") {
  const TempFolder folder;
  folder.Write("data", std::string(2500, 'x'));
  const CheckpointManifest manifest = ManifestOf(folder, {"data"});
  folder.Write("data", std::string(2000, 'x'));
  CHECK(CheckPart(folder.path(), manifest, 1) == absl::OkStatus());
  CHECK(CheckPart(folder.path(), manifest, 2).code() == absl::StatusCode::kDataLoss);
  CHECK(Checksum(folder.path(), "none").status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("a manifest whose file has another number of parts than its size has is damaged") {
  const TempFolder folder;
  folder.Write("data", std::string(2500, 'x'));
  for (const size_t parts : {0, 1, 2, 4}) {
    CheckpointManifest manifest = ManifestOf(folder, {"data"});
    manifest.files[0].parts.resize(parts);
    CHECK(ParseCheckpointManifest(Serialize(manifest), "M").status().message() ==
          absl::StrCat("M is damaged: data has ", parts, " parts"));
  }
}

}  // namespace distill
