#include "examples/recipe/hub_sources.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/config/config_file.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/store/hub_name.h"
#include "libdistill/train/trainer_state.h"

namespace distill {
namespace {

// What the run whose checkpoint is resumed from kept, in the resolved_config.yaml beside it, or else in output_dir;
// nothing where there is no such file.
FieldValues OptionsBefore(const TrainerOptions& trainer) {
  std::vector<std::string> folders = {trainer.output_dir};
  if (!WantsNewest(trainer)) {
    folders.insert(folders.begin(), ParentFolder(CanonicalPath(trainer.resume_from_checkpoint)));
  }
  for (const std::string& folder : folders) {
    const std::string file = JoinPath(folder, "resolved_config.yaml");
    const absl::StatusOr<std::string> text = ReadFile(file);
    if (!text.ok()) continue;
    const absl::StatusOr<FieldValues> kept = ValuesFromYaml(*text);
    if (kept.ok()) return *kept;
    LogWarning(absl::StrCat(file, ": ", kept.status().message(), ": names of the hub are looked up anew"));
  }
  return {};
}

// `value`: of the path's option then.
void PinAs(const std::string& value, NamedPath& path) {
  const absl::StatusOr<HubName> name = ParseHubName(path.text, path.source.kind);
  if (!name.ok() || name->has_revision || !path.source.revision.empty()) return;
  for (const absl::string_view before : absl::StrSplit(value, ',', absl::SkipWhitespace())) {
    const absl::StatusOr<HubName> kept = ParseHubName(absl::StripAsciiWhitespace(before), path.source.kind);
    if (!kept.ok() || kept->repository.name != name->repository.name || kept->folder != name->folder) continue;
    if (IsCommit(kept->repository.revision)) path.source.revision = kept->repository.revision;
  }
}

}  // namespace

absl::Status PinSources(RunContext& run, const TrainerOptions& trainer, std::vector<NamedPath>& paths) {
  if (run.rank() == 0 && WantsToResume(trainer)) {  // whose paths are those of all
    const FieldValues before = OptionsBefore(trainer);
    for (NamedPath& path : paths) {
      for (const auto& [name, value] : before) {
        if (name == path.option) PinAs(value, path);
      }
    }
  }
  return PinOnAllRanks(run, paths);
}

absl::Status FetchConfig(const std::string& option, const std::string& revision, std::string& model) {
  absl::StatusOr<std::string> folder = LocalPath(model, {HubKind::kModel, {HubContents::kConfig}, revision});
  if (folder.ok()) {
    model = *std::move(folder);
    return absl::OkStatus();
  }
  const absl::Status& error = folder.status();
  const bool is_out_of_reach =
      absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error) || absl::IsFailedPrecondition(error);
  if (!is_out_of_reach) return Annotate(error, option);
  return absl::Status(error.code(),
                      absl::StrCat(option, ": ", error.message(), "; a plan needs the model's config.json alone: --",
                                   option, " FOLDER takes any folder that has it"));
}

}  // namespace distill
