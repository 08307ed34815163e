// Ranks that check a checkpoint's files together.
#include "libdistill/checkpoint/open_together.h"

#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checksums.h"
#include "libdistill/checkpoint/layout.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "tests/checkpoint/saved.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

namespace fs = std::filesystem;

using testing::ExpectError;
using testing::Failures;
using testing::FlipByte;
using testing::RunRanks;
using testing::Save;
using testing::TempFolder;

constexpr int kRanks = 3;
constexpr uint64_t kPart = 100;

// A checkpoint of nine parts, which rank r finds in `folder_of` it.
absl::Status CheckNineParts(const World& world, const CheckpointManifest& manifest,
                            const std::function<std::string(int rank)>& folder_of) {
  fs::current_path(folder_of(world.rank));
  DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {}));
  return OpenTogether(*comm,
                      [&](CheckParts check) -> absl::StatusOr<Checkpoint> {
                        DISTILL_RETURN_IF_ERROR(check("data", manifest));
                        return Checkpoint();
                      })
      .status();
}

struct Folders {
  Folders() {
    for (const TempFolder* folder : {&first, &copy}) {
      fs::create_directory(*folder / "data");
      folder->Write("data/weights", std::string(9 * kPart, 'x'));
    }
    manifest = {
        .format_version = kCheckpointFormatVersion, .step = 5, .files = {}, .part_bytes = kPart, .checksum = ""};
    manifest.files.push_back(Checksum(first / "data", "weights", kPart).value());
  }
  TempFolder first, copy;
  CheckpointManifest manifest;
};

}  // namespace

TEST_CASE("a changed byte is found on every rank, whichever of them reads its part") {
  const Folders folders;
  const auto shared = [&](int) { return folders.first.path(); };
  CHECK(Failures(RunRanks(kRanks, absl::Seconds(60),
                          [&](const World& world) { return CheckNineParts(world, folders.manifest, shared); })) == "");
  for (int64_t part = 0; part < 9; ++part) {
    FlipByte(folders.first / "data/weights", part * kPart + 7);
    CHECK(Failures(RunRanks(kRanks, absl::Seconds(60), [&](const World& world) {
            return ExpectError(CheckNineParts(world, folders.manifest, shared), absl::StatusCode::kDataLoss,
                               {"data/weights is damaged: its checksum differs from the manifest's"});
          })) == "");
    FlipByte(folders.first / "data/weights", part * kPart + 7);
  }
}

TEST_CASE("only rank 0's own files count, not what another host has under the same name") {
  const Folders folders;
  const TempFolder empty;
  const auto own = [&](int rank) {
    return rank == 0 ? folders.first.path() : rank == 1 ? folders.copy.path() : empty.path();
  };
  const auto check = [&](absl::StatusCode expected) {
    return Failures(RunRanks(kRanks, absl::Seconds(60), [&](const World& world) {
      const absl::Status checked = CheckNineParts(world, folders.manifest, own);
      return checked.code() == expected ? absl::OkStatus() : absl::InternalError(checked.ToString());
    }));
  };
  for (int64_t part = 0; part < 9; ++part) FlipByte(folders.copy / "data/weights", part * kPart);
  CHECK(check(absl::StatusCode::kOk) == "");
  for (int64_t part = 0; part < 9; ++part) FlipByte(folders.copy / "data/weights", part * kPart);
  FlipByte(folders.first / "data/weights", 4 * kPart);  // the middle one of three ranks would read it
  CHECK(check(absl::StatusCode::kDataLoss) == "");
}

TEST_CASE("latest passes over a damaged checkpoint, and an error of rank 0 alone is every rank's") {
  const TempFolder out;
  for (const int64_t step : {4, 5}) REQUIRE(Save(out.path(), step) == absl::OkStatus());
  FlipByte(out / "checkpoint-5/optimizer.safetensors", 100);
  CHECK(
      Failures(RunRanks(2, absl::Seconds(60), [&](const World& world) -> absl::Status {
        DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {}));
        DISTILL_ASSIGN_OR_RETURN(const Checkpoint opened, OpenTogether(*comm, [&](CheckParts check) {
                                   return ReadNewestCheckpoint(out.path(), check);
                                 }));
        if (opened.state.step != (world.rank == 0 ? 4 : 0)) return absl::InternalError("not the older one");
        return ExpectError(
            OpenTogether(*comm, [&](CheckParts check) { return ReadCheckpoint(out / "checkpoint-5", check); }).status(),
            absl::StatusCode::kDataLoss, {"checkpoint-5/optimizer.safetensors is damaged"});
      })) == "");
  CHECK(Failures(RunRanks(2, absl::Seconds(60), [&](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {}));
          return ExpectError(
              OpenTogether(
                  *comm, [&](CheckParts) -> absl::StatusOr<Checkpoint> { return absl::NotFoundError("nothing there"); })
                  .status(),
              absl::StatusCode::kNotFound, {"nothing there"});
        })) == "");
}

}  // namespace distill
