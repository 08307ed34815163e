#include "examples/llm/sources.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "examples/llm/llm_task.h"
#include "libdistill/config/config_file.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/run/hub_paths.h"
#include "libdistill/store/files.h"
#include "libdistill/store/hub_name.h"
#include "libdistill/train/trainer_state.h"

namespace distill {
namespace {

HubSource ModelSource(const std::string& revision, HubContents contents = HubContents::kModel) {
  return {HubKind::kModel, {contents}, revision};
}

HubSource RowSource(const LlmOptions& options, const std::string& split) {
  return {HubKind::kDataset, {HubContents::kRows, split}, options.dataset_revision};
}

// Both models, the held-out data, and all that dataset_name names.
std::vector<NamedPath> PathsOf(const LlmOptions& options) {
  std::vector<NamedPath> paths = {
      {"teacher_model", options.teacher_model, ModelSource(options.teacher_revision)},
      {"student_model", options.student_model, ModelSource(options.student_revision)},
      {"eval_dataset_name", options.eval_dataset_name, RowSource(options, options.eval_split)}};
  for (const std::string& name : DatasetNames(options)) {
    paths.push_back({"dataset_name", name, RowSource(options, options.dataset_split)});
  }
  return paths;
}

void SetPaths(const std::vector<NamedPath>& paths, LlmOptions& options) {
  options.teacher_model = paths[0].text;
  options.student_model = paths[1].text;
  options.eval_dataset_name = paths[2].text;
  std::vector<std::string> names;
  for (size_t i = 3; i < paths.size(); ++i) names.push_back(paths[i].text);
  options.dataset_name = absl::StrJoin(names, ",");
}

// The paths that the run whose checkpoint is resumed from kept, in the resolved_config.yaml beside it, or else in
// output_dir; none where there is no such file.
std::vector<NamedPath> PathsBefore(const TrainerOptions& trainer) {
  std::vector<std::string> folders = {trainer.output_dir};
  if (!WantsNewest(trainer)) {
    folders.insert(folders.begin(), ParentFolder(CanonicalPath(trainer.resume_from_checkpoint)));
  }
  for (const std::string& folder : folders) {
    const std::string file = JoinPath(folder, "resolved_config.yaml");
    const absl::StatusOr<std::string> text = ReadFile(file);
    if (!text.ok()) continue;
    const absl::StatusOr<FieldValues> kept = ValuesFromYaml(*text);
    if (!kept.ok()) {
      LogWarning(absl::StrCat(file, ": ", kept.status().message(), ": names of the hub are looked up anew"));
      continue;
    }
    LlmOptions before;
    for (const auto& [name, value] : *kept) {
      if (name == "teacher_model") before.teacher_model = value;
      if (name == "student_model") before.student_model = value;
      if (name == "eval_dataset_name") before.eval_dataset_name = value;
      if (name == "dataset_name") before.dataset_name = value;
    }
    return PathsOf(before);
  }
  return {};
}

// A run that is resumed takes the commits with which it began, wherever the branch is now.
void PinAsBefore(const LlmOptions& options, std::vector<NamedPath>& paths) {
  if (!WantsToResume(options.trainer)) return;
  const std::vector<NamedPath> all_before = PathsBefore(options.trainer);
  for (NamedPath& path : paths) {
    const absl::StatusOr<HubName> name = ParseHubName(path.text, path.source.kind);
    if (!name.ok() || name->has_revision || !path.source.revision.empty()) continue;
    for (const NamedPath& before : all_before) {
      if (before.option != path.option) continue;
      const absl::StatusOr<HubName> kept = ParseHubName(before.text, path.source.kind);
      if (!kept.ok() || kept->repository.name != name->repository.name || kept->folder != name->folder) continue;
      if (IsCommit(kept->repository.revision)) path.source.revision = kept->repository.revision;
    }
  }
}

}  // namespace

absl::Status PinSources(RunContext& run, LlmOptions& options) {
  std::vector<NamedPath> paths = PathsOf(options);
  if (run.rank() == 0) PinAsBefore(options, paths);  // whose paths are those of all
  DISTILL_RETURN_IF_ERROR(PinOnAllRanks(run, paths));
  const std::string before = options.dataset_name;
  SetPaths(paths, options);
  if (PathsOf(options).size() != paths.size()) options.dataset_name = before;  // a name with a comma in it
  // The names have them now.
  options.teacher_revision = options.student_revision = options.dataset_revision = "";
  return absl::OkStatus();
}

absl::Status FetchSources(RunContext& run, LlmOptions& options) {
  std::vector<NamedPath> paths = PathsOf(options);
  DISTILL_RETURN_IF_ERROR(FetchOnEachHost(run, paths));
  options.kept = OptionsToKeep(options);
  SetPaths(paths, options);
  return absl::OkStatus();
}

absl::Status FetchConfigs(LlmOptions& options) {
  for (const auto& [option, text, revision] :
       {std::tuple("teacher_model", &options.teacher_model, &options.teacher_revision),
        std::tuple("student_model", &options.student_model, &options.student_revision)}) {
    absl::StatusOr<std::string> local = LocalPath(*text, ModelSource(*revision, HubContents::kConfig));
    if (!local.ok()) return Annotate(local.status(), option);
    *text = *std::move(local);
  }
  return absl::OkStatus();
}

}  // namespace distill
