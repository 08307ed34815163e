#include "examples/recipe/hub_sources.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

std::vector<NamedPath> PathsOf(const std::vector<HubOption>& sources) {
  std::vector<NamedPath> paths;
  for (const HubOption& source : sources) {
    for (const std::string& name : source.names) paths.push_back({source.option, name, source.source});
  }
  return paths;
}

// `paths`: PathsOf's, with other texts. An option none of whose names is another one now keeps its text as it was
// written.
void SetNames(const std::vector<NamedPath>& paths, std::vector<HubOption>& sources) {
  auto path = paths.begin();
  for (HubOption& source : sources) {
    const std::vector<std::string> before = source.names;
    for (std::string& name : source.names) name = (path++)->text;
    if (source.names != before) *source.value = absl::StrJoin(source.names, ",");
  }
}

// The config alone, of a model that is a name of the hub.
absl::Status FetchConfig(const HubOption& model) {
  absl::StatusOr<std::string> folder =
      LocalPath(*model.value, {HubKind::kModel, {HubContents::kConfig}, model.source.revision});
  if (folder.ok()) {
    *model.value = *std::move(folder);
    return absl::OkStatus();
  }
  const absl::Status& error = folder.status();
  const bool is_out_of_reach =
      absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error) || absl::IsFailedPrecondition(error);
  if (!is_out_of_reach) return Annotate(error, model.option);
  return absl::Status(error.code(), absl::StrCat(model.option, ": ", error.message(),
                                                 "; a plan needs the model's config.json alone: --", model.option,
                                                 " FOLDER takes any folder that has it"));
}

}  // namespace

HubOption ModelOption(const std::string& option, std::string& value, std::string* revision) {
  return {option,
          {HubKind::kModel, {HubContents::kModel}, revision == nullptr ? "" : *revision},
          &value,
          revision,
          {value}};
}

HubOption RowsOption(const std::string& option, std::string& value, const std::string& split, std::string* revision) {
  return {option,
          {HubKind::kDataset, {HubContents::kRows, split}, revision == nullptr ? "" : *revision},
          &value,
          revision,
          {value}};
}

HubOption RowsOption(SourceOptions& sources) {
  HubOption option = RowsOption("dataset_name", sources.dataset_name, sources.dataset_split, &sources.dataset_revision);
  option.names = SourceNames(sources);
  return option;
}

absl::Status PinSources(RunContext& run, const TrainerOptions& trainer, std::vector<HubOption>& sources) {
  std::vector<NamedPath> paths = PathsOf(sources);
  if (run.rank() == 0 && WantsToResume(trainer)) {  // whose paths are those of all
    const FieldValues before = OptionsBefore(trainer);
    for (NamedPath& path : paths) {
      for (const auto& [name, value] : before) {
        if (name == path.option) PinAs(value, path);
      }
    }
  }
  DISTILL_RETURN_IF_ERROR(PinOnAllRanks(run, paths));
  SetNames(paths, sources);
  for (const HubOption& source : sources) {
    if (source.revision != nullptr) source.revision->clear();  // the names have it now
  }
  return absl::OkStatus();
}

absl::Status FetchSources(RunContext& run, std::vector<HubOption>& sources) {
  std::vector<NamedPath> paths = PathsOf(sources);
  DISTILL_RETURN_IF_ERROR(FetchOnEachHost(run, paths));
  SetNames(paths, sources);
  return absl::OkStatus();
}

NamedSources NamedSourcesOf(const std::vector<HubOption>& sources) {
  NamedSources named;
  for (const NamedPath& path : PathsOf(sources)) named.emplace_back(path.option, path.text);
  return named;
}

absl::Status FetchConfigs(const std::vector<HubOption>& sources) {
  for (const HubOption& source : sources) {
    if (source.source.kind == HubKind::kModel) DISTILL_RETURN_IF_ERROR(FetchConfig(source));
  }
  return absl::OkStatus();
}

}  // namespace distill
