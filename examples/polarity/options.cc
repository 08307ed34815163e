#include "examples/polarity/options.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "examples/recipe/required_value.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

std::vector<std::string> SplitNames(const std::string& text) {
  std::vector<std::string> names;
  for (const absl::string_view name : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    names.emplace_back(absl::StripAsciiWhitespace(name));
  }
  return names;
}

absl::Status CheckHeldOut(const PolarityOptions& options) {
  if (!options.eval_dataset_name.empty()) return absl::OkStatus();
  if (!AsksForEvaluations(options.trainer) && options.shard.held_out_rows == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "options about evaluations (eval_strategy, eval_steps, metric_for_best_model, per_device_eval_batch_size, ...) "
      "need held-out reviews: eval_dataset_name");
}

absl::Status CheckLabels(const std::vector<std::string>& labels) {
  if (labels.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("labels: there are ", labels.size(), "; name two classes or more, as negative,positive"));
  }
  for (auto label = labels.begin(); label != labels.end(); ++label) {
    if (std::find(labels.begin(), label, *label) == label) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("labels: '", *label, "' is named twice; each class has its own name"));
  }
  return absl::OkStatus();
}

absl::Status CheckTexts(const PolarityOptions& options) {
  const size_t columns = TextColumns(options).size();
  if (columns == 0) return absl::InvalidArgumentError("text_columns is empty: name the columns that hold the texts");
  if (options.text_form == TextsForm::kPair && columns > 2) {
    return absl::InvalidArgumentError(absl::StrCat("text_form: a pair is of two texts, but text_columns names ",
                                                   columns, "; set text_form to joined"));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> LabelNames(const PolarityOptions& options) { return SplitNames(options.labels); }
std::vector<std::string> TextColumns(const PolarityOptions& options) { return SplitNames(options.text_columns); }

absl::Status CheckPolarity(const PolarityOptions& options, const RecipeFlags& flags) {
  DISTILL_RETURN_IF_ERROR(RequireValue("student_model", options.student_model));
  DISTILL_RETURN_IF_ERROR(CheckTexts(options));
  DISTILL_RETURN_IF_ERROR(CheckLabels(LabelNames(options)));
  DISTILL_RETURN_IF_ERROR(CheckShardOptions(options.shard));
  if (options.shard.packing) {
    return absl::InvalidArgumentError(
        "packing: each row of a batch is one review; group_by_length: true saves padding instead");
  }
  if (flags.plan) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(RequireValue("dataset_name", options.dataset_name));
  DISTILL_RETURN_IF_ERROR(RequireValue("output_dir", options.trainer.output_dir));
  return CheckHeldOut(options);
}

}  // namespace distill
