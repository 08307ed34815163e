#include "examples/llm/sources.h"

#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "examples/llm/llm_task.h"
#include "examples/recipe/hub_sources.h"
#include "examples/recipe/kept_options.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/run/hub_paths.h"

namespace distill {
namespace {

HubSource ModelSource(const std::string& revision) { return {HubKind::kModel, {HubContents::kModel}, revision}; }

HubSource RowSource(const LlmOptions& options, const std::string& split) {
  return {HubKind::kDataset, {HubContents::kRows, split}, options.sources.dataset_revision};
}

// Both models, the held-out data, and all that dataset_name names.
std::vector<NamedPath> PathsOf(const LlmOptions& options) {
  std::vector<NamedPath> paths = {
      {"teacher_model", options.teacher_model, ModelSource(options.teacher_revision)},
      {"student_model", options.student_model, ModelSource(options.student_revision)},
      {"eval_dataset_name", options.eval_dataset_name, RowSource(options, options.eval_split)}};
  for (const std::string& name : SourceNames(options.sources)) {
    paths.push_back({"dataset_name", name, RowSource(options, options.sources.dataset_split)});
  }
  return paths;
}

void SetPaths(const std::vector<NamedPath>& paths, LlmOptions& options) {
  options.teacher_model = paths[0].text;
  options.student_model = paths[1].text;
  options.eval_dataset_name = paths[2].text;
  std::vector<std::string> names;
  for (size_t i = 3; i < paths.size(); ++i) names.push_back(paths[i].text);
  options.sources.dataset_name = absl::StrJoin(names, ",");
}

}  // namespace

absl::Status PinSources(RunContext& run, LlmOptions& options) {
  std::vector<NamedPath> paths = PathsOf(options);
  DISTILL_RETURN_IF_ERROR(PinSources(run, options.trainer, paths));
  const std::string before = options.sources.dataset_name;
  SetPaths(paths, options);
  if (PathsOf(options).size() != paths.size()) options.sources.dataset_name = before;  // a name with a comma in it
  // The names have them now.
  options.teacher_revision = options.student_revision = options.sources.dataset_revision = "";
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
  DISTILL_RETURN_IF_ERROR(FetchConfig("teacher_model", options.teacher_revision, options.teacher_model));
  return FetchConfig("student_model", options.student_revision, options.student_model);
}

}  // namespace distill
