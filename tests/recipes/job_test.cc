#include "examples/recipe/job.h"

#include "absl/strings/match.h"
#include "libdistill/checkpoint/output_lock.h"
#include "libdistill/store/durable_files.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::TempFolder;

TEST_CASE("a save that was interrupted is completed before a run checks its output_dir, by who has the folder's lock") {
  const TempFolder out;
  out.Write(".model.new/.files", "config.json\nmodel.safetensors");
  out.Write(".model.new/config.json", "{}");
  out.Write(".model.new/model.safetensors", "weights");
  TrainerOptions trainer;
  trainer.output_dir = out.path();
  {
    const auto held = OutputLock::Take(out.path());
    REQUIRE(held.ok());
    CHECK(CheckFolders(trainer, {}).code() == absl::StatusCode::kFailedPrecondition);
    CHECK(EntryExists(out / ".model.new"));
  }
  const absl::Status refused = CheckFolders(trainer, {});  // there is a model now
  CHECK(absl::StrContains(refused.message(), "holds a model already (model.safetensors)"));
  CHECK(*ListEntries(out.path()) == std::vector<std::string>{".lock", "config.json", "model.safetensors"});
  trainer.overwrite_output_dir = true;
  CHECK(CheckFolders(trainer, {}) == absl::OkStatus());
}

}  // namespace
}  // namespace distill
