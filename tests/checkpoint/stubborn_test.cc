// Folders that cannot be removed, and disks that are full.
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/file_error.h"
#include "libdistill/store/files.h"
#include "tests/checkpoint/saved.h"
#include "tests/support/captured_stderr.h"
#include "tests/support/catch.h"
#include "tests/support/immutable.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

namespace fs = std::filesystem;

using testing::CapturedStderr;
using testing::Immutable;
using testing::Save;
using testing::TempFolder;

constexpr char kSkipped[] = "skipped: root may not make a file immutable here (chattr +i)";

// What a save does: the checkpoint, then the old ones; what was said.
std::string SaveAndPrune(const TempFolder& out, int64_t step) {
  const CapturedStderr said;
  CHECK(Save(out.path(), step) == absl::OkStatus());
  RemoveOldCheckpoints(out.path(), 1, step);
  CHECK(ReadCheckpoint(CheckpointFolder(out.path(), step)).ok());
  return said.Text();
}

std::set<std::string> NamesIn(const TempFolder& out) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(out.path())) names.insert(entry.path().filename());
  return names;
}

}  // namespace

TEST_CASE("weights of another model that cannot be removed keep a save waiting, until they can be", "[immutable]") {
  const TempFolder out;
  const auto publish = [&] {
    return PublishFiles(out.path(), [](const std::string& draft) -> absl::Status {
      for (const char* name : {"config.json", "model.safetensors"}) {
        if (auto written = WriteWholeFile(JoinPath(draft, name), "new"); !written.ok()) return written;
      }
      return absl::OkStatus();
    });
  };
  out.Write("pytorch_model.bin", "old");
  {
    const Immutable held(out / "pytorch_model.bin");
    if (!held.holds()) {
      WARN(kSkipped);
      return;
    }
    const absl::Status refused = publish();
    CHECK(refused.code() == absl::StatusCode::kPermissionDenied);
    CHECK(absl::StrContains(refused.message(), "weights of another model are left in " + out.path()));
    CHECK(NamesIn(out) == std::set<std::string>{".model.new", "pytorch_model.bin"});
  }
  CHECK(FinishPublishing(out.path()) == absl::OkStatus());
  CHECK(NamesIn(out) == std::set<std::string>{"config.json", "model.safetensors"});
}

TEST_CASE("an old checkpoint with a file that cannot be removed is hidden, warned of once, and goes later",
          "[immutable]") {
  const TempFolder out;
  REQUIRE(Save(out.path(), 1) == absl::OkStatus());
  {
    const Immutable held(out / "checkpoint-1/config.json");
    if (!held.holds()) {
      WARN(kSkipped);
      return;
    }
    const std::string said = SaveAndPrune(out, 2);
    CHECK(absl::StrContains(said, out / "checkpoint-1 is not needed any more, and stays: cannot remove"));
    CHECK(absl::StrContains(said, "training continues, and each save tries again"));
    CHECK(NamesIn(out) == std::set<std::string>{"checkpoint-2", ".checkpoint-1.tmp"});
    CHECK(SaveAndPrune(out, 3).empty());
    // Its name is taken when that step is saved again.
    CHECK(SaveAndPrune(out, 1).empty());
  }
  fs::permissions(out / ".checkpoint-1.tmp", fs::perms::owner_all);
  CHECK(SaveAndPrune(out, 4).empty());
  CHECK(NamesIn(out) == std::set<std::string>{"checkpoint-4"});
}

TEST_CASE("an old checkpoint whose folder cannot be renamed stays whole, and goes later", "[immutable]") {
  const TempFolder out;
  REQUIRE(Save(out.path(), 1) == absl::OkStatus());
  {
    const Immutable held(out / "checkpoint-1");
    if (!held.holds() || geteuid() != 0) {
      WARN(kSkipped);
      return;
    }
    const std::string said = SaveAndPrune(out, 2);
    CHECK(absl::StrContains(said, out / "checkpoint-1 is not needed any more, and stays"));
    CHECK(absl::StrContains(said, "Operation not permitted"));
    CHECK(SaveAndPrune(out, 3).empty());
    CHECK(ReadCheckpoint(out / "checkpoint-1").ok());
  }
  CHECK(SaveAndPrune(out, 4).empty());
  CHECK(NamesIn(out) == std::set<std::string>{"checkpoint-4"});
}

TEST_CASE("a replaced checkpoint that cannot be removed does not fail the save", "[immutable]") {
  const TempFolder out;
  REQUIRE(Save(out.path(), 5) == absl::OkStatus());
  const Immutable held(out / "checkpoint-5/config.json");
  if (!held.holds()) {
    WARN(kSkipped);
    return;
  }
  const CapturedStderr said;
  REQUIRE(Save(out.path(), 5) == absl::OkStatus());
  CHECK(absl::StrContains(said.Text(), "cannot remove"));
  CHECK(ReadNewestCheckpoint(out.path())->folder == out / "checkpoint-5");
  REQUIRE(Save(out.path(), 5) == absl::OkStatus());
  CHECK(ReadCheckpoint(out / "checkpoint-5").ok());
}

TEST_CASE("an output folder that has vanished is made anew, and that is said") {
  const TempFolder out;
  const std::string folder = out / "run";
  REQUIRE(Save(folder, 1) == absl::OkStatus());
  fs::remove_all(folder);
  const CapturedStderr said;
  REQUIRE(Save(folder, 2) == absl::OkStatus());
  CHECK(absl::StrContains(said.Text(), "output_dir " + folder + " is not there"));
  CHECK(ReadCheckpoint(folder + "/checkpoint-2").ok());
}

TEST_CASE("a full disk is named with the file, the bytes that were wanted and those that are free") {
  const std::vector<float> values(256);
  const absl::Status tensors =
      WriteSafetensors("/dev/full", {{"a", {DType::kFloat32, {256}, values.data(), 1024}}}, {});
  for (const absl::Status& status : {WriteWholeFile("/dev/full", std::string(1000, 'x')), tensors}) {
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    CHECK(absl::StrContains(status.message(), "cannot write /dev/full: No space left on device (wanted 1"));
    CHECK(absl::StrContains(status.message(), " are free)"));
  }
  CHECK(absl::StrContains(WriteWholeFile("/dev/full", std::string(1000, 'x')).message(), "(wanted 1000 bytes, "));
}

TEST_CASE("the free space of a folder that is not there yet is that of where it will be") {
  const TempFolder out;
  const auto space = fs::space(out.path());
  const auto free = FreeBytes(out / "a/b/c");
  REQUIRE(free.ok());
  CHECK(*free <= static_cast<int64_t>(space.capacity));
  CHECK(*free > 0);
  // A disk of its own: /proc has no space at all.
  CHECK(FreeBytes("/proc/self/none").value() == 0);
}

}  // namespace distill
