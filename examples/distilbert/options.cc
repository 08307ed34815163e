#include "examples/distilbert/options.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "examples/recipe/required_value.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

absl::Status CheckModels(const DistilBertOptions& options) {
  DISTILL_RETURN_IF_ERROR(TeacherLayers(options).status());
  if (options.teacher_model.empty()) {
    if (options.loss.kl_weight > 0 || options.loss.cosine_weight > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "alpha is ", options.loss.kl_weight, " and gamma ", options.loss.cosine_weight,
          ", but there is no teacher_model; set both to 0 to train student_checkpoint on masked words alone"));
    }
    DISTILL_RETURN_IF_ERROR(RequireValue("student_checkpoint", options.student_checkpoint));
  }
  if (options.student_checkpoint.empty() || options.teacher_layers.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "teacher_layers makes the student out of the teacher, and student_checkpoint names another one: give one of "
      "them");
}

absl::Status CheckText(const DistilBertOptions& options) {
  return options.use_demo_data ? absl::OkStatus() : RequireValue("dataset_name", options.sources.dataset_name);
}

absl::Status CheckEvaluation(const DistilBertOptions& options) {
  if (options.sources.validation_split > 0) return absl::OkStatus();
  if (!AsksForEvaluations(options.trainer) && options.shard.held_out_rows == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "options about evaluations (eval_strategy, eval_steps, metric_for_best_model, per_device_eval_batch_size, ...) "
      "need held-out text: raise validation_split above 0");
}

}  // namespace

absl::Status CheckDistilBert(const DistilBertOptions& options, const RecipeFlags& flags) {
  DISTILL_RETURN_IF_ERROR(CheckModels(options));
  DISTILL_RETURN_IF_ERROR(CheckShardOptions(options.shard));
  if (options.shard.packing) {
    return absl::InvalidArgumentError(
        "packing: texts are cut into pieces of max_length already; group_by_length saves the padding of short ones");
  }
  if (flags.plan) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(RequireValue("output_dir", options.trainer.output_dir));
  DISTILL_RETURN_IF_ERROR(CheckText(options));
  return CheckEvaluation(options);
}

absl::StatusOr<std::vector<int64_t>> TeacherLayers(const DistilBertOptions& options) {
  std::vector<int64_t> layers;
  for (absl::string_view part : absl::StrSplit(options.teacher_layers, ',', absl::SkipWhitespace())) {
    part = absl::StripAsciiWhitespace(part);
    if (absl::SimpleAtoi(part, &layers.emplace_back())) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("teacher_layers: '", part, "' is no whole number: list layers from 0, as 0, 2, 4"));
  }
  return layers;
}

}  // namespace distill
