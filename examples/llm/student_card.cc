#include "examples/llm/student_card.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "examples/recipe/kept_options.h"
#include "libdistill/core/description.h"
#include "libdistill/core/version.h"
#include "libdistill/store/file_writer.h"
#include "libdistill/store/files.h"
#include "libdistill/store/hub_name.h"

namespace distill {
namespace {

// As the user gave it: OptionsToKeep has names of the hub where `options` may have folders by now.
std::string Given(const FieldValues& values, const char* name) {
  for (const auto& [field, value] : values) {
    if (field == name) return value;
  }
  return "";
}

// Options of paths are left out, since they say nothing to others; the models and data sets have their own place.
CardRows OtherThanDefaults(const FieldValues& given) {
  LlmOptions defaults;
  const Description usual = DescriptionOf(defaults);
  CardRows rows;
  for (const auto& [name, value] : given) {
    const FieldDescription* field = usual.Find(name);
    if (field != nullptr && !field->is_path && value != field->initial) rows.emplace_back(name, value);
  }
  return rows;
}

// What the hardware is called: the first line of the file that begins with `key`.
std::string LineAfter(const std::string& path, absl::string_view key) {
  std::ifstream file(path);  // of the kernel, which has no size
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, key)) return std::string(absl::StripAsciiWhitespace(line.substr(line.find(':') + 1)));
  }
  return "";
}

std::string HardwareOf(const RunContext& run) {
  std::string name;
  if (run.device().is_cuda()) {
    std::error_code error;
    for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error)) {
      if (name.empty()) name = LineAfter(gpu.path() / "information", "Model:");
    }
  } else {
    name = LineAfter("/proc/cpuinfo", "model name");
  }
  return absl::StrCat(run.world_size(), run.world_size() == 1 ? " rank on " : " ranks on ",
                      run.device().is_cuda() ? "GPUs" : "CPUs", name.empty() ? "" : absl::StrCat(" (", name, ")"));
}

CardRows FiguresOf(const RunContext& run, const TrainResult& result, const LastLoss& last) {
  CardRows rows = {{"training loss, mean over all steps", absl::StrFormat("%.4f", result.train_loss)}};
  if (last.loss()) rows.emplace_back("training loss, last step", absl::StrFormat("%.4f", *last.loss()));
  for (const auto& [name, value] : result.metrics) {
    if (absl::StartsWith(name, "eval_")) rows.emplace_back(name, absl::StrFormat("%.4g", value));
  }
  rows.emplace_back("steps", absl::StrCat(result.steps));
  rows.emplace_back("tokens", absl::StrCat(result.tokens));
  // A run that resumes at its end knows no more than its steps.
  if (last.loss()) rows.emplace_back("training time", absl::StrFormat("%.1f s", result.train_runtime));
  rows.emplace_back("hardware", HardwareOf(run));
  return rows;
}

// "org/name" of a name on the hub, however it is written; of a path its last part. A local path that looks like a name
// on the hub is none.
std::string NameInCard(const std::string& given, HubKind kind) {
  const absl::StatusOr<HubName> name = ParseHubName(given, kind);
  if (name.ok() && (name->is_url || (!FolderExists(given) && !FileExists(given)))) return name->repository.name;
  const std::filesystem::path parts(given);
  return (parts.has_filename() ? parts : parts.parent_path()).filename().string();
}

}  // namespace

ModelCard CardOf(const RunContext& run, const LlmOptions& options, const TrainResult& result, const LastLoss& last,
                 const LlmModels& models) {
  const FieldValues given = OptionsToKeep(options);
  ModelCard card{.name = options.publish.hub_location,
                 .teacher = NameInCard(Given(given, "teacher_model"), HubKind::kModel),
                 .student = NameInCard(Given(given, "student_model"), HubKind::kModel),
                 .student_has_weights = models.student_has_weights,
                 .options = OtherThanDefaults(given),
                 .figures = FiguresOf(run, result, last),
                 .version = Version()};
  if (card.name.empty()) card.name = NameInCard(options.trainer.output_dir, HubKind::kModel);
  LlmOptions data = options;
  data.sources.dataset_name = Given(given, "dataset_name");
  for (const std::string& name : SourceNames(data.sources))
    card.data_sets.push_back(NameInCard(name, HubKind::kDataset));
  const absl::StatusOr<std::string> page = ReadFile(JoinPath(models.student->source_folder(), kPageFile));
  if (page.ok()) card.license = MetadataOf(*page, "license");
  return card;
}

absl::Status WriteCard(const std::string& folder, const ModelCard& card) {
  const std::string path = JoinPath(folder, kPageFile);
  if (FileExists(path)) {
    DISTILL_ASSIGN_OR_RETURN(const std::string page, ReadFile(path));
    if (!absl::StrContains(page, kCardMarker)) return absl::OkStatus();
  }
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<FileWriter> file, CreateFile(path));
  DISTILL_RETURN_IF_ERROR(file->Append(ModelCardText(card)));
  return file->Commit();
}

}  // namespace distill
