#include "examples/squad/options.h"

#include "absl/strings/str_cat.h"
#include "examples/recipe/required_value.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

absl::Status RequireData(const char* flag, bool is_wanted, const char* name, const std::string& file,
                         const std::string& dataset) {
  if (!is_wanted || !file.empty() || !dataset.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(flag, " needs data: give ", name, ", or dataset_name"));
}

absl::Status CheckTraining(const SquadOptions& options) {
  if (!options.do_train && !options.do_eval) {
    return absl::InvalidArgumentError("nothing is to be done: set do_train, do_eval, or both");
  }
  DISTILL_RETURN_IF_ERROR(
      RequireData("do_train", options.do_train, "train_file", options.train_file, options.dataset_name));
  DISTILL_RETURN_IF_ERROR(
      RequireData("do_eval", options.do_eval, "validation_file", options.validation_file, options.dataset_name));
  DISTILL_RETURN_IF_ERROR(RequireValue("output_dir", options.trainer.output_dir));
  DISTILL_RETURN_IF_ERROR(CheckShardOptions(options.shard));
  if (options.shard.packing) {
    return absl::InvalidArgumentError("packing: an answer is looked for in one context alone; leave packing out");
  }
  if (options.do_eval || !AsksForEvaluations(options.trainer)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "options about evaluations (eval_strategy, eval_steps, metric_for_best_model, ...) need do_eval");
}

}  // namespace

absl::Status CheckSquad(const SquadOptions& options, const SquadFlags& flags) {
  DISTILL_RETURN_IF_ERROR(RequireValue("model_name_or_path", options.model_name_or_path));
  if (flags.question.empty() != flags.context.empty()) {
    return absl::InvalidArgumentError("an answer needs both --question TEXT and --context FILE");
  }
  return flags.plan || !flags.question.empty() ? absl::OkStatus() : CheckTraining(options);
}

}  // namespace distill
