#include "examples/recipe/job.h"

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/checkpoint/output_lock.h"
#include "libdistill/config/config_file.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"
#include "libdistill/store/weight_files.h"
#include "libdistill/train/trainer_state.h"

namespace distill {
namespace {

constexpr char kConfigName[] = "resolved_config.yaml";

// What the run reads must not be among what it replaces.
absl::Status CheckSources(const TrainerOptions& trainer, const NamedSources& sources) {
  if (!trainer.overwrite_output_dir || trainer.output_dir.empty()) return absl::OkStatus();
  for (const auto& [name, path] : sources) {
    if (path.empty() || !LiesIn(trainer.output_dir, path)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": ", path, " is in output_dir ", trainer.output_dir,
        ", whose contents this run may replace (overwrite_output_dir: true); choose another output_dir, or move it"));
  }
  return absl::OkStatus();
}

// A run that was interrupted, and its command given again as it was: `output_dir` holds its checkpoints, and its
// settings.
absl::Status CheckSameRun(const TrainerOptions& trainer) {
  if (trainer.overwrite_output_dir || !trainer.resume_from_checkpoint.empty()) return absl::OkStatus();
  const std::string settings = JoinPath(trainer.output_dir, kConfigName);
  if (!FileExists(settings)) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const std::string checkpoint, FindNewestCheckpoint(trainer.output_dir));
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(settings));
  if (checkpoint.empty() || text != ValuesToYaml(trainer.resolved_config)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "output_dir: ", checkpoint, " is this same run's, by every option: to resume it, repeat the command with ",
      "--resume_from_checkpoint latest; to begin again, choose another output_dir, or set overwrite_output_dir to "
      "true"));
}

// A save that a crash has interrupted is a model as any once it is complete: one that the checks see, and that this run
// may load.
absl::Status FinishEarlierSave(const std::string& folder) {
  if (folder.empty() || IsRemote(folder) || !FolderExists(JoinPath(folder, kStandingSave))) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<OutputLock> lock, OutputLock::Take(folder));
  return FinishPublishing(folder);
}

}  // namespace

// When data and models are loaded the trainer checks the output folder again.
absl::Status CheckFolders(const TrainerOptions& trainer, const NamedSources& sources) {
  DISTILL_RETURN_IF_ERROR(CheckSources(trainer, sources));
  DISTILL_RETURN_IF_ERROR(CheckSameRun(trainer));
  DISTILL_RETURN_IF_ERROR(FinishEarlierSave(trainer.output_dir));
  DISTILL_RETURN_IF_ERROR(CheckOutputFolder(trainer));
  // Another run that writes there is no less in the way now than when data and models are loaded, nor is a store that
  // does not let this one write; a local folder is made when there is something to write.
  const std::string& folder = trainer.output_dir;
  return IsRemote(folder) || FolderExists(folder) ? OutputLock::Take(folder).status() : absl::OkStatus();
}

absl::Status AgreeOnFolders(RunContext& run, const TrainerOptions& trainer, const NamedSources& sources) {
  return Agree(run.communicator(), run.rank() == 0 ? CheckFolders(trainer, sources) : absl::OkStatus());
}

absl::Status SaveConfig(RunContext& run, const TrainerOptions& trainer) {
  absl::Status mine;
  if (run.rank() == 0 && !trainer.output_dir.empty()) {
    mine = PublishFiles(trainer.output_dir, [&](const std::string& folder) {
      return WriteWholeFile(JoinPath(folder, kConfigName), ValuesToYaml(trainer.resolved_config));
    });
  }
  return Agree(run.communicator(), mine);
}

}  // namespace distill
