#include "libdistill/checkpoint/manifest.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/store/content_hash.h"
#include "tests/checkpoint/saved.h"
#include "tests/support/captured_stderr.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

namespace fs = std::filesystem;

using testing::CapturedStderr;
using testing::FlipByte;
using testing::Save;
using testing::TempFolder;

// The manifest as the first version of the format has it: without a checksum.
void MakeVersion1(const TempFolder& out, const std::string& name) {
  const auto manifest = OpenManifest(out.Read(name), name);
  REQUIRE(manifest.ok());
  CheckpointManifest old = *manifest;
  old.format_version = 1;
  old.checksum.clear();
  out.Write(name, Serialize(old));
}

// Each byte of checkpoint-5's manifest, with one bit changed and with all: never read as whole, and `latest` resumes
// from the older one.
void CheckEachByte(const TempFolder& out) {
  const std::string manifest = out / "checkpoint-5/manifest.pb";
  for (int64_t offset = 0; offset < static_cast<int64_t>(fs::file_size(manifest)); ++offset) {
    for (const int mask : {1, 0xff}) {
      CAPTURE(offset, mask);
      FlipByte(manifest, offset, mask);
      const CapturedStderr said;
      CHECK(ReadCheckpoint(out / "checkpoint-5").status().code() == absl::StatusCode::kDataLoss);
      const auto newest = ReadNewestCheckpoint(out.path());
      REQUIRE(newest.ok());
      CHECK(newest->state.step == 4);
      CHECK(absl::StrContains(said.Text(), "passing over a newer checkpoint: "));
      CHECK(absl::StrContains(said.Text(), out / "checkpoint-5"));
      FlipByte(manifest, offset, mask);
    }
  }
  CHECK(ReadCheckpoint(out / "checkpoint-5").status() == absl::OkStatus());
}

void CheckRefused(const std::string& folder, const std::vector<std::string>& parts) {
  const absl::Status status = ReadCheckpoint(folder).status();
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  for (const std::string& part : parts) CHECK(absl::StrContains(status.message(), part));
}

}  // namespace

TEST_CASE("a changed byte of a manifest is noticed, whichever it is") {
  const TempFolder out;
  for (const int64_t step : {4, 5}) REQUIRE(Save(out.path(), step) == absl::OkStatus());
  CheckEachByte(out);
}

TEST_CASE("a manifest of the first version is read, and a changed byte of it is noticed") {
  const TempFolder out;
  for (const int64_t step : {4, 5}) REQUIRE(Save(out.path(), step) == absl::OkStatus());
  MakeVersion1(out, "checkpoint-5/manifest.pb");
  CHECK(ReadCheckpoint(out / "checkpoint-5").status() == absl::OkStatus());
  CheckEachByte(out);
}

TEST_CASE("a manifest with bytes that no version writes is damaged") {
  const TempFolder out;
  REQUIRE(Save(out.path(), 5) == absl::OkStatus());
  MakeVersion1(out, "checkpoint-5/manifest.pb");
  const std::string bytes = out.Read("checkpoint-5/manifest.pb");
  for (const std::string& more :
       {std::string("\x70\x01", 2), std::string("\x10\x05", 2)}) {  // an unknown field; step twice
    out.Write("checkpoint-5/manifest.pb", bytes + more);
    CheckRefused(out / "checkpoint-5", {out / "checkpoint-5/manifest.pb", "no version writes", "resume from an older"});
  }
}

TEST_CASE("the manifest of a newer version is refused as that, not as damaged") {
  CheckpointManifest newer;
  newer.format_version = 3;
  newer.step = 5;
  const std::string body = Serialize(newer);
  newer.checksum = std::string(32, '0');
  CHECK(OpenManifest(Serialize(newer), "m").status().code() == absl::StatusCode::kDataLoss);
  const auto sealed = OpenManifest(SealManifest(newer), "m");
  REQUIRE(sealed.ok());
  CHECK(sealed->format_version == 2);
  newer.checksum = ContentHash().Add(body.data(), body.size()).Hex();
  const absl::Status status = OpenManifest(Serialize(newer), "m").status();
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(status.message() == "m: format version 3; this program reads versions 1 to 2");
}

TEST_CASE("a checkpoint under another step's name is refused, and both steps are named") {
  const TempFolder out;
  REQUIRE(Save(out.path(), 10) == absl::OkStatus());
  for (const char* name : {"checkpoint-30", ".checkpoint-30.old", ".checkpoint-30.1.old"}) {
    fs::rename(out / "checkpoint-10", out / name);
    CheckRefused(out / name, {out / name, "step 30", "step 10", "name back (checkpoint-10)"});
    CheckRefused(absl::StrCat(out / name, "/./"), {"step 30", "step 10"});
    CHECK(ReadNewestCheckpoint(out.path()).status().code() == absl::StatusCode::kDataLoss);
    fs::rename(out / name, out / "checkpoint-10");
  }
  // A name that says no step is the user's affair.
  fs::rename(out / "checkpoint-10", out / "kept");
  CHECK(ReadCheckpoint(out / "kept").status() == absl::OkStatus());
}

TEST_CASE("a manifest beside another step's state is refused") {
  const TempFolder out;
  REQUIRE(Save(out.path(), 10) == absl::OkStatus());
  // The state of step 11, and the manifest that goes with these files but for the step.
  auto draft = CheckpointDraft::Begin(out.path(), 10);
  REQUIRE(draft.ok());
  REQUIRE(draft->WriteTensors({}, testing::WriteNoTensor) == absl::OkStatus());
  REQUIRE(draft->Commit(testing::StateOf(11)) == absl::OkStatus());
  CheckRefused(out / "checkpoint-10", {"trainer_state.pb is of step 11", "manifest.pb of step 10"});
}

}  // namespace distill
