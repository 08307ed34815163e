#include "libdistill/checkpoint/checkpoint.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/store/files.h"
#include "tests/checkpoint/saved.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

namespace fs = std::filesystem;

using testing::FlipByte;
using testing::Save;
using testing::StateOf;
using testing::TempFolder;

std::string NewestName(const std::string& output_dir) {
  const auto checkpoint = ReadNewestCheckpoint(output_dir);
  return checkpoint.ok() ? fs::path(checkpoint->folder).filename().string()
                         : std::string(checkpoint.status().message());
}

void CheckDamaged(const std::string& folder, const std::string& file, const std::string& how) {
  const auto checkpoint = ReadCheckpoint(folder);
  CHECK(checkpoint.status().code() == absl::StatusCode::kDataLoss);
  CHECK(absl::StrContains(checkpoint.status().message(), JoinPath(folder, file)));
  CHECK(absl::StrContains(checkpoint.status().message(), how));
}

}  // namespace

TEST_CASE("a position that was saved as numbers is read as them") {
  // Fields 4 to 6 of TrainerState as varints: epoch 2, row 3, seed 300.
  const auto state = ParseTrainerState(std::string("\x20\x02\x28\x03\x30\xac\x02", 7), "an old one");
  REQUIRE(state.ok());
  CHECK_FALSE(state->position.has_value());
  CHECK(state->epoch == 2);
  CHECK(state->row == 3);
  CHECK(state->data_seed == 300);
}

TEST_CASE("a checkpoint gives back what was saved") {
  const TempFolder out;
  REQUIRE(Save(out.path(), 12) == absl::OkStatus());
  const auto checkpoint = ReadCheckpoint(JoinPath(out.path(), "checkpoint-12"));
  REQUIRE(checkpoint.status() == absl::OkStatus());
  const TrainerState& state = checkpoint->state;
  CHECK(state.step == 12);
  CHECK(state.updates == 11);
  CHECK(state.skipped_in_a_row == 1);
  CHECK(state.position == StateOf(12).position);
  REQUIRE(state.record_sums.size() == 1);
  CHECK(state.record_sums[0].name == "loss");
  CHECK(state.record_sums[0].sum == 1.5);
  CHECK(state.record_sums[0].steps == 2);
  CHECK(state.loss_sum == 0.1);
  CHECK(state.samples == 5);
  CHECK(state.tokens == 6);
  CHECK(state.random_states == StateOf(12).random_states);
  CHECK(state.settings == StateOf(12).settings);
  const auto view = checkpoint->tensors->Load("weight/a");
  REQUIRE(view.ok());
  CHECK(static_cast<const float*>(view->data)[1] == 12.0f);
  CHECK(FileExists(JoinPath(checkpoint->folder, "config.json")));
  // No draft is left behind.
  CHECK(std::distance(fs::directory_iterator(out.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("a flipped byte in any file is found and the file named") {
  const TempFolder out;
  for (const char* name : {"config.json", "optimizer.safetensors", "trainer_state.pb"}) {
    REQUIRE(Save(out.path(), 5) == absl::OkStatus());
    const std::string folder = JoinPath(out.path(), "checkpoint-5");
    FlipByte(JoinPath(folder, name), static_cast<int64_t>(fs::file_size(JoinPath(folder, name))) - 1);
    CheckDamaged(folder, name, "checksum");
  }
}

TEST_CASE("a truncated, a missing and an exchanged file are named") {
  const TempFolder out;
  REQUIRE(Save(out.path(), 5) == absl::OkStatus());
  const std::string folder = JoinPath(out.path(), "checkpoint-5");
  fs::resize_file(JoinPath(folder, "optimizer.safetensors"), 20);
  CheckDamaged(folder, "optimizer.safetensors", "20 bytes instead of");
  fs::remove(JoinPath(folder, "optimizer.safetensors"));
  CheckDamaged(folder, "optimizer.safetensors", "missing");
  fs::resize_file(JoinPath(folder, "manifest.pb"), fs::file_size(JoinPath(folder, "manifest.pb")) - 3);
  CheckDamaged(folder, "manifest.pb", "damaged");
}

TEST_CASE("a folder without a manifest is no checkpoint") {
  const TempFolder out;
  REQUIRE(Save(out.path(), 5) == absl::OkStatus());
  const std::string folder = JoinPath(out.path(), "checkpoint-5");
  fs::remove(JoinPath(folder, "manifest.pb"));
  CHECK(ReadCheckpoint(folder).status().code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(ReadCheckpoint(folder).status().message(), "manifest.pb"));
  CHECK(ReadCheckpoint(out.path() + "/none").status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("the newest whole checkpoint is found, damaged and unfinished ones are passed over") {
  const TempFolder out;
  CHECK(ReadNewestCheckpoint(out.path()).status().code() == absl::StatusCode::kNotFound);
  CHECK(ReadNewestCheckpoint(out.path() + "/none").status().code() == absl::StatusCode::kNotFound);
  for (const int64_t step : {9, 10, 100}) REQUIRE(Save(out.path(), step) == absl::OkStatus());
  CHECK(NewestName(out.path()) == "checkpoint-100");
  FlipByte(out.path() + "/checkpoint-100/config.json", 0);
  CHECK(NewestName(out.path()) == "checkpoint-10");
  const auto draft = CheckpointDraft::Begin(out.path(), 200);  // a crash in the middle of saving
  REQUIRE(draft.ok());
  fs::create_directory(out.path() + "/checkpoint-best");
  CHECK(NewestName(out.path()) == "checkpoint-10");
}

TEST_CASE("a step that is saved again replaces the old checkpoint") {
  const TempFolder out;
  REQUIRE(Save(out.path(), 5) == absl::OkStatus());
  FlipByte(out.path() + "/checkpoint-5/config.json", 0);
  REQUIRE(Save(out.path(), 5) == absl::OkStatus());
  CHECK(ReadCheckpoint(out.path() + "/checkpoint-5").ok());
  CHECK(std::distance(fs::directory_iterator(out.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("checkpoints that are all damaged are an error that names the newest one's file") {
  const TempFolder out;
  for (const int64_t step : {3, 4}) REQUIRE(Save(out.path(), step) == absl::OkStatus());
  FlipByte(out.path() + "/checkpoint-3/config.json", 0);
  fs::remove(out.path() + "/checkpoint-4/manifest.pb");
  const absl::Status status = ReadNewestCheckpoint(out.path()).status();
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK(absl::StrContains(status.message(), out.path() + "/checkpoint-4"));
  CHECK(absl::StrContains(status.message(), "manifest.pb"));
}

TEST_CASE("a crash while a checkpoint replaces one of the same step loses neither") {
  const TempFolder out;
  REQUIRE(Save(out.path(), 5) == absl::OkStatus());
  fs::rename(out.path() + "/checkpoint-5", out.path() + "/.checkpoint-5.old");  // and here the process died
  const auto found = ReadNewestCheckpoint(out.path());
  REQUIRE(found.status() == absl::OkStatus());
  CHECK(found->state.step == 5);
  // The next save brings it back, and clears the drafts of crashed runs.
  fs::create_directory(out.path() + "/.checkpoint-4.tmp");
  REQUIRE(Save(out.path(), 6) == absl::OkStatus());
  CHECK(ReadCheckpoint(out.path() + "/checkpoint-5").ok());
  CHECK(ReadCheckpoint(out.path() + "/checkpoint-6").ok());
  CHECK(std::distance(fs::directory_iterator(out.path()), fs::directory_iterator()) == 2);
}

TEST_CASE("a draft that is discarded leaves nothing") {
  const TempFolder out;
  auto draft = CheckpointDraft::Begin(out.path(), 3);
  REQUIRE(draft.ok());
  REQUIRE(draft->WriteTensors({}, testing::WriteNoTensor) == absl::OkStatus());
  draft->Discard();
  CHECK(fs::is_empty(out.path()));
}

TEST_CASE("only the newest checkpoints are kept") {
  const TempFolder out;
  for (const int64_t step : {8, 9, 10, 11}) REQUIRE(Save(out.path(), step) == absl::OkStatus());
  RemoveOldCheckpoints(out.path(), 0, 11);
  CHECK(FolderExists(out.path() + "/checkpoint-8"));
  RemoveOldCheckpoints(out.path(), 2, 11);
  CHECK_FALSE(FolderExists(out.path() + "/checkpoint-8"));
  CHECK_FALSE(FolderExists(out.path() + "/checkpoint-9"));
  CHECK(FolderExists(out.path() + "/checkpoint-10"));
  CHECK(FolderExists(out.path() + "/checkpoint-11"));
}

TEST_CASE("what only has a checkpoint's name is not removed") {
  const TempFolder out;
  for (const int64_t step : {8, 9}) REQUIRE(Save(out.path(), step) == absl::OkStatus());
  fs::remove(out.path() + "/checkpoint-8/manifest.pb");
  const std::string foreign = out.path() + "/checkpoint-7";
  fs::create_directory(foreign);
  std::ofstream(foreign + "/trainer_state.json") << "{}";
  RemoveOldCheckpoints(out.path(), 1, 9);
  CHECK(FolderExists(foreign));
  CHECK_FALSE(FolderExists(out.path() + "/checkpoint-8"));
  const absl::Status status = RemoveCheckpoints(out.path(), "");
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(absl::StrContains(status.message(), foreign));
  CHECK(FolderExists(out.path() + "/checkpoint-9"));
  fs::remove_all(foreign);
  REQUIRE(RemoveCheckpoints(out.path(), out.path() + "/./checkpoint-9/") == absl::OkStatus());
  CHECK(FolderExists(out.path() + "/checkpoint-9"));
  REQUIRE(RemoveCheckpoints(out.path(), "") == absl::OkStatus());
  CHECK_FALSE(FolderExists(out.path() + "/checkpoint-9"));
}

TEST_CASE("the checkpoint that was just saved is kept, whatever later steps an earlier run left") {
  const TempFolder out;
  for (const int64_t step : {100, 10, 15}) REQUIRE(Save(out.path(), step) == absl::OkStatus());
  FlipByte(out.path() + "/checkpoint-100/config.json", 0);  // why the run went back to step 10
  RemoveOldCheckpoints(out.path(), 2, 15);
  CHECK(FolderExists(out.path() + "/checkpoint-10"));
  CHECK_FALSE(FolderExists(out.path() + "/checkpoint-100"));
  RemoveOldCheckpoints(out.path(), 1, 15);
  CHECK(NewestName(out.path()) == "checkpoint-15");
}

TEST_CASE("a folder inside a checkpoint is refused, and nothing is committed") {
  const TempFolder out;
  auto draft = CheckpointDraft::Begin(out.path(), 3);
  REQUIRE(draft.ok());
  fs::create_directory(JoinPath(draft->folder(), "nested"));
  REQUIRE(draft->WriteTensors({}, testing::WriteNoTensor) == absl::OkStatus());
  CHECK(absl::StrContains(draft->Commit(StateOf(3)).message(), "nested"));
  CHECK_FALSE(FolderExists(out.path() + "/checkpoint-3"));
}

TEST_CASE("a published file takes the place of the older one, and a failed writer changes nothing") {
  const TempFolder out;
  const std::string folder = out.path() + "/model";
  const auto write = [](const char* text) {
    return [text](const std::string& draft) {
      std::ofstream(JoinPath(draft, "config.json")) << text;
      return absl::OkStatus();
    };
  };
  REQUIRE(PublishFiles(folder, write("one")) == absl::OkStatus());
  REQUIRE(PublishFiles(folder, write("two")) == absl::OkStatus());
  CHECK(ReadFile(folder + "/config.json").value() == "two");
  const absl::Status failed = PublishFiles(folder, [](const std::string& draft) {
    std::ofstream(JoinPath(draft, "config.json")) << "three";
    return absl::InternalError("disk full");
  });
  CHECK(failed.message() == "disk full");
  CHECK(ReadFile(folder + "/config.json").value() == "two");
  CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 1);
  REQUIRE(PublishFiles(folder, write("four")) == absl::OkStatus());
  CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 1);
}

TEST_CASE("published weights take the place of another model's, whatever the names of its files") {
  using Names = std::vector<std::string>;
  const TempFolder out;
  const auto publish = [&](const Names& names) {
    REQUIRE(PublishFiles(out.path(), [&](const std::string& draft) {
              for (const std::string& name : names) std::ofstream(JoinPath(draft, name)) << "new";
              return absl::OkStatus();
            }) == absl::OkStatus());
    return *ListFiles(out.path(), "", "");
  };
  const Names full = {"config.json", "model.safetensors"};
  const Names adapters = {"adapter_config.json", "adapter_model.safetensors"};
  CHECK(publish(adapters) == adapters);
  CHECK(publish(full) == full);
  CHECK(publish({"config.json", "hidden_projections.safetensors", "model.safetensors"}).size() == 3);
  CHECK(publish(full) == full);
  CHECK(publish(adapters) == adapters);
  for (const char* name : {"model-00001-of-00002.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                           "pytorch_model-00001-of-00001.bin", "adapter_model.bin"}) {
    out.Write(name, "old");
  }
  out.Write("README.md", "a person's");
  out.Write("model_head.bin", "a person's");
  CHECK(publish(full) == Names{"README.md", "config.json", "model.safetensors", "model_head.bin"});
  CHECK(publish({"notes.txt"}).size() == 5);  // no weights: those that are there are all that there is
}

}  // namespace distill
