#include "examples/distilbert/models.h"

#include <utility>

#include "absl/strings/str_cat.h"
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
