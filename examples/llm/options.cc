#include "examples/llm/options.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr ProgramText kProgram = {"distill_llm", "Trains a small language model from the logits of a large one."};

absl::Status RequireValue(const char* name, const std::string& value) {
  if (!value.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is missing: give it in the config file or as --", name));
}

absl::Status CheckModels(const LlmOptions& options) {
  DISTILL_RETURN_IF_ERROR(RequireValue("student_model", options.student_model));
  if (!options.teacher_model.empty() || options.loss.alpha == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("alpha is ", options.loss.alpha,
                                                 ", but there is no teacher_model; set alpha to 0 to train on labels "
                                                 "alone"));
}

absl::Status CheckHeldOut(const LlmOptions& options) {
  if (options.validation_split > 0 && !options.eval_dataset_name.empty()) {
    return absl::InvalidArgumentError(
        "validation_split holds out a part of dataset_name, and eval_dataset_name names other data: give one of them");
  }
  if (options.validation_split > 0 || !options.eval_dataset_name.empty()) return absl::OkStatus();
  if (!AsksForEvaluations(options.trainer) && options.shard.held_out_rows == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "options about evaluations (eval_strategy, eval_steps, metric_for_best_model, per_device_eval_batch_size, ...) "
      "need held-out data: eval_dataset_name, or validation_split");
}

absl::Status CheckTraining(const LlmOptions& options) {
  DISTILL_RETURN_IF_ERROR(RequireValue("student_model", options.student_model));
  DISTILL_RETURN_IF_ERROR(RequireValue("dataset_name", options.dataset_name));
  DISTILL_RETURN_IF_ERROR(RequireValue("output_dir", options.trainer.output_dir));
  DISTILL_RETURN_IF_ERROR(CheckModels(options));
  DISTILL_RETURN_IF_ERROR(CheckShardOptions(options.shard));
  return CheckHeldOut(options);
}

// A batch takes data and a tokenizer, no more.
absl::Status CheckBatch(const LlmOptions& options) {
  DISTILL_RETURN_IF_ERROR(RequireValue("dataset_name", options.dataset_name));
  return options.teacher_model.empty() ? RequireValue("student_model", options.student_model) : absl::OkStatus();
}

absl::Status CheckPublishing(const LlmFlags& flags, const PublishOptions& options) {
  DISTILL_RETURN_IF_ERROR(RequireValue("hub_location", options.hub_location));
  for (const auto& [name, is_given] :
       {std::pair("--plan", flags.plan), std::pair("--generate", !flags.generate.empty()),
        std::pair("--show_batch", flags.show_batch)}) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(absl::StrCat("--publish and ", name, " are two things to do: give one of them"));
  }
  if (PublishesToHub(options)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--publish sends the model to the hub, and save_location (or push_to_hub) says not to: leave one of them out");
}

absl::Status CheckFlags(const LlmFlags& flags) {
  if (!flags.plan && (flags.world_size || flags.ranks_per_host)) {
    return absl::InvalidArgumentError(
        "--world_size and --ranks_per_host go with --plan; a run has the ranks that its launcher starts");
  }
  if (flags.plan || flags.generate.empty() || !flags.prompt.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("--generate needs --prompt TEXT");
}

}  // namespace

absl::StatusOr<LlmCommand> ParseLlmCommand(int argc, const char* const* argv) {
  LlmCommand command;
  const Description settings = DescriptionOf(command.options), flags = DescriptionOf(command.flags);
  DISTILL_ASSIGN_OR_RETURN(command.line, ParseCommandLine(argc, argv, kProgram, settings, flags));
  if (!command.line.message.empty()) return command;
  DISTILL_RETURN_IF_ERROR(settings.Check());
  DISTILL_RETURN_IF_ERROR(CheckFlags(command.flags));
  if (!command.flags.publish.empty()) {
    DISTILL_RETURN_IF_ERROR(CheckPublishing(command.flags, command.options.publish));
  } else if (command.flags.plan) {
    DISTILL_RETURN_IF_ERROR(CheckModels(command.options));
  } else if (command.flags.show_batch) {
    DISTILL_RETURN_IF_ERROR(CheckBatch(command.options));
  } else if (command.flags.generate.empty()) {
    DISTILL_RETURN_IF_ERROR(CheckTraining(command.options));
  }
  return command;
}

FieldValues OptionsToKeep(LlmOptions options) {
  if (!options.kept.empty()) return options.kept;
  options.trainer.overwrite_output_dir = false;
  return DescriptionOf(options).Values(/*with_code_only=*/false);
}

}  // namespace distill
