#include "examples/polarity/models.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "examples/recipe/hub_sources.h"
#include "examples/recipe/kept_options.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/weights_folder.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/trainer.h"
#include "libdistill/train/trainer_state.h"

namespace distill {
namespace {

std::vector<NamedPath> PathsOf(const PolarityOptions& options) {
  const auto model = [](const std::string& revision) {
    return HubSource{HubKind::kModel, {HubContents::kModel}, revision};
  };
  const auto rows = [&](const std::string& split) {
    return HubSource{HubKind::kDataset, {HubContents::kRows, split}, options.dataset_revision};
  };
  return {{"student_model", options.student_model, model(options.student_revision)},
          {"teacher_model", options.teacher_model, model(options.teacher_revision)},
          {"dataset_name", options.dataset_name, rows(options.dataset_split)},
          {"eval_dataset_name", options.eval_dataset_name, rows(options.eval_split)}};
}

void SetPaths(const std::vector<NamedPath>& paths, PolarityOptions& options) {
  options.student_model = paths[0].text;
  options.teacher_model = paths[1].text;
  options.dataset_name = paths[2].text;
  options.eval_dataset_name = paths[3].text;
}

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

std::string TokenizerFolderOf(const PolarityOptions& options) {
  const bool takes_teachers = !options.teacher_model.empty() && !Tokenizer::IsIn(options.student_model) &&
                              Tokenizer::IsIn(options.teacher_model);
  return takes_teachers ? options.teacher_model : options.student_model;
}

absl::StatusOr<Tokenizer> LoadTokenizer(const PolarityOptions& options) {
  const std::string folder = TokenizerFolderOf(options);
  absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Load(folder);
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), "student_model");
  if (options.teacher_model.empty() || folder == options.teacher_model) return tokenizer;
  const absl::StatusOr<Tokenizer> of_teacher = Tokenizer::Load(options.teacher_model);
  if (!of_teacher.ok()) return Annotate(of_teacher.status(), "teacher_model");
  DISTILL_RETURN_IF_ERROR(Annotate(RequireSameTokenizer(*of_teacher, *tokenizer),
                                   absl::StrCat(options.teacher_model, " and ", options.student_model)));
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

absl::Status PinNames(RunContext& run, PolarityOptions& options) {
  std::vector<NamedPath> paths = PathsOf(options);
  DISTILL_RETURN_IF_ERROR(PinSources(run, options.trainer, paths));
  SetPaths(paths, options);
  // The names have them now.
  options.student_revision = options.teacher_revision = options.dataset_revision = "";
  return absl::OkStatus();
}

absl::Status FetchNames(RunContext& run, PolarityOptions& options) {
  std::vector<NamedPath> paths = PathsOf(options);
  DISTILL_RETURN_IF_ERROR(FetchOnEachHost(run, paths));
  options.kept = OptionsToKeep(options);
  SetPaths(paths, options);
  return absl::OkStatus();
}

}  // namespace distill
