#include "examples/distilbert/models.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "examples/recipe/hub_sources.h"
#include "examples/recipe/kept_options.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/encoder_student.h"
#include "libdistill/train/trainer.h"
#include "libdistill/train/trainer_state.h"

namespace distill {
namespace {

absl::StatusOr<std::shared_ptr<Encoder>> LoadTeacher(const DistilBertOptions& options, const LoadOptions& load) {
  DISTILL_RETURN_IF_ERROR(Annotate(CheckModelFolder(options.teacher_model), "teacher_model"));
  absl::StatusOr<std::shared_ptr<Encoder>> teacher = LoadEncoder(options.teacher_model, load);
  if (!teacher.ok()) return Annotate(teacher.status(), "teacher_model");
  return teacher;
}

absl::StatusOr<std::shared_ptr<Encoder>> LoadStudent(const DistilBertOptions& options) {
  const std::string& folder = options.student_checkpoint;
  absl::StatusOr<bool> has_weights = HasWeights(folder);
  if (!has_weights.ok()) return Annotate(has_weights.status(), "student_checkpoint");
  if (!*has_weights && !WillResume(options.trainer)) {
    LogInfo(absl::StrCat(folder, " has no weights: the student starts from random ones, drawn with seed ",
                         options.trainer.seed));
  }
  absl::StatusOr<std::shared_ptr<Encoder>> student =
      *has_weights ? LoadEncoder(folder) : CreateEncoder(folder, options.trainer.seed);
  if (!student.ok()) return Annotate(student.status(), "student_checkpoint");
  return student;
}

}  // namespace

absl::Status FetchSources(RunContext& run, DistilBertOptions& options) {
  const HubSource rows{
      HubKind::kDataset, {HubContents::kRows, options.sources.dataset_split}, options.sources.dataset_revision};
  std::vector<NamedPath> paths = {
      {"teacher_model", options.teacher_model, {HubKind::kModel, {HubContents::kModel}, options.teacher_revision}},
      {"student_checkpoint",
       options.student_checkpoint,
       {HubKind::kModel, {HubContents::kModel}, options.student_revision}}};
  const std::vector<std::string> names = SourceNames(options.sources);
  for (const std::string& name : names) paths.push_back({"dataset_name", name, rows});
  const auto take = [&] {
    options.teacher_model = paths[0].text;
    options.student_checkpoint = paths[1].text;
    if (names.size() == 1) options.sources.dataset_name = paths[2].text;
    if (names.size() < 2) return;
    options.sources.dataset_name = absl::StrJoin(paths.begin() + 2, paths.end(), ",",
                                                 [](std::string* out, const NamedPath& path) { *out += path.text; });
  };
  DISTILL_RETURN_IF_ERROR(PinSources(run, options.trainer, paths));
  take();
  // The names have them now.
  options.teacher_revision = options.student_revision = options.sources.dataset_revision = "";
  options.kept = OptionsToKeep(options);
  DISTILL_RETURN_IF_ERROR(FetchOnEachHost(run, paths));
  take();
  return absl::OkStatus();
}

absl::StatusOr<DistilBertModels> LoadModels(const DistilBertOptions& options, const RunContext& run) {
  const torch::Dtype dtype = WorkingType(options.trainer, run.device());
  DistilBertModels models;
  if (options.student_checkpoint.empty()) {
    // In the type of its file, so that the student begins with its exact weights.
    DISTILL_ASSIGN_OR_RETURN(models.teacher, LoadTeacher(options, {}));
    DISTILL_ASSIGN_OR_RETURN(const std::vector<int64_t> layers, TeacherLayers(options));
    DISTILL_ASSIGN_OR_RETURN(models.student, MakeStudent(*models.teacher, layers));
    models.teacher->to(run.device(), dtype);
  } else {
    if (!options.teacher_model.empty()) {
      DISTILL_ASSIGN_OR_RETURN(models.teacher, LoadTeacher(options, {.dtype = dtype, .device = run.device()}));
    }
    DISTILL_ASSIGN_OR_RETURN(models.student, LoadStudent(options));
  }
  models.student->to(run.device());
  if (options.dropout) models.student->EnableDropout();
  if (options.gradient_checkpointing) models.student->EnableGradientCheckpointing();
  return models;
}

}  // namespace distill
