#include "examples/polarity/models.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "examples/recipe/shared_tokenizer.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/weights_folder.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/trainer.h"
#include "libdistill/train/trainer_state.h"

namespace distill {
namespace {

absl::StatusOr<std::shared_ptr<SequenceClassifier>> NewClassifier(const std::string& folder,
                                                                  const ClassifierOptions& classifier, bool dropout) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ReadEncoderConfig(folder));
  DISTILL_ASSIGN_OR_RETURN(ModelContent content, ReadContent(folder));
  std::shared_ptr<SequenceClassifier> model;
  DISTILL_RETURN_IF_ERROR(CatchTorch([&] {
    model = std::make_shared<SequenceClassifier>(config, classifier.labels, classifier.seed);
    if (dropout) model->EnableDropout();
  }));
  model->SetSource(folder, std::move(content));
  return model;
}

absl::StatusOr<std::shared_ptr<SequenceClassifier>> LoadStudent(const PolarityOptions& options, const RunContext& run,
                                                                const ClassifierOptions& classifier) {
  const std::string& folder = options.student_model;
  DISTILL_ASSIGN_OR_RETURN(const bool has_weights, HasWeights(folder));
  if (!has_weights) {
    LogInfo(absl::StrCat(folder, " has no weights: ",
                         WillResume(options.trainer) ? "they are those of the checkpoint"
                                                     : absl::StrCat("they are drawn with seed ", classifier.seed)));
    return NewClassifier(folder, classifier, options.dropout);
  }
  // One that is to be sharded may fit neither on a device nor in a rank's memory.
  const bool is_sharded = options.trainer.zero_stage == 3 && run.world_size() > 1;
  return LoadClassifier(folder, classifier,
                        {.device = is_sharded ? c10::Device(torch::kCPU) : run.device(),
                         .blocks_later = is_sharded,
                         .dropout = options.dropout});
}

// A head that was drawn would teach nothing.
absl::StatusOr<std::shared_ptr<SequenceClassifier>> LoadTeacher(const PolarityOptions& options, const RunContext& run,
                                                                const ClassifierOptions& classifier) {
  if (options.teacher_model.empty()) return std::shared_ptr<SequenceClassifier>();
  DISTILL_ASSIGN_OR_RETURN(const WeightsFolder weights, WeightsFolder::Open(options.teacher_model));
  if (weights.Find("classifier.weight") == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.teacher_model, ": holds no classifier: train it on labels first, or leave teacher_model out"));
  }
  return LoadClassifier(options.teacher_model, classifier,
                        {.dtype = WorkingType(options.trainer, run.device()), .device = run.device()});
}

}  // namespace

absl::StatusOr<Tokenizer> LoadTokenizer(const PolarityOptions& options) {
  const std::string folder = TokenizerFolderOf(options.student_model, options.teacher_model);
  absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Load(folder);
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), "student_model");
  if (options.teacher_model.empty() || folder == options.teacher_model) return tokenizer;
  DISTILL_RETURN_IF_ERROR(RequireTokenizerOf(options.teacher_model, options.student_model, *tokenizer));
  return tokenizer;
}

absl::StatusOr<Classifiers> LoadClassifiers(const PolarityOptions& options, const RunContext& run) {
  const ClassifierOptions classifier{.labels = static_cast<int64_t>(LabelNames(options).size()),
                                     .seed = options.trainer.seed};
  Classifiers models;
  absl::StatusOr<std::shared_ptr<SequenceClassifier>> student = LoadStudent(options, run, classifier);
  if (!student.ok()) return Annotate(student.status(), "student_model");
  models.student = *std::move(student);
  if (options.gradient_checkpointing) models.student->EnableGradientCheckpointing();
  absl::StatusOr<std::shared_ptr<SequenceClassifier>> teacher = LoadTeacher(options, run, classifier);
  if (!teacher.ok()) return Annotate(teacher.status(), "teacher_model");
  models.teacher = *std::move(teacher);
  return models;
}

}  // namespace distill
