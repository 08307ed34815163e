#include "examples/llm/options.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "examples/recipe/required_value.h"
#include "libdistill/core/description.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

absl::Status CheckStatesAreThere(const LlmOptions& options) {
  if (options.loss.hidden_weight == 0 || !options.teacher_model.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "hidden_weight compares the student's states with a teacher's, and there is no teacher_model; set it to 0");
}

absl::Status CheckModels(const LlmOptions& options) {
  DISTILL_RETURN_IF_ERROR(RequireValue("student_model", options.student_model));
  DISTILL_RETURN_IF_ERROR(CheckStatesAreThere(options));
  if (!options.teacher_model.empty() || IsOfLabelsAlone(options.loss)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(options.loss.alpha == 0 ? "alpha_end is " : "alpha is ",
                   std::max(options.loss.alpha, options.loss.alpha_schedule.end.value_or(0)),
                   ", but there is no teacher_model; set alpha to 0 to train on labels "
                   "alone"));
}

absl::Status CheckHeldOut(const LlmOptions& options) {
  if (options.sources.validation_split > 0 && !options.eval_dataset_name.empty()) {
    return absl::InvalidArgumentError(
        "validation_split holds out a part of dataset_name, and eval_dataset_name names other data: give one of them");
  }
  if (options.sources.validation_split > 0 || !options.eval_dataset_name.empty()) return absl::OkStatus();
  if (!AsksForEvaluations(options.trainer) && options.shard.held_out_rows == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "options about evaluations (eval_strategy, eval_steps, metric_for_best_model, per_device_eval_batch_size, ...) "
      "need held-out data: eval_dataset_name, or validation_split");
}

absl::Status CheckPart(const LlmOptions& options) {
  if (!options.use_peft) {
    const FieldValues given = ValuesOf(options.adapters), usual = ValuesOf(AdapterOptions());
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i].second == usual[i].second) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(given[i].first, " is about adapters, and without use_peft: true none are trained"));
    }
    return absl::OkStatus();
  }
  if (!options.layers_to_unfreeze.empty()) {
    return absl::InvalidArgumentError(
        "use_peft trains adapters, and layers_to_unfreeze some of the weights themselves: give one of them");
  }
  if (options.adapters.form == AdapterForm::kMerged || !PublishesToHub(options.publish)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "lora_save: a folder of adapters is not published on the hub; leave lora_save at merged, or save_location and "
      "push_to_hub out");
}

absl::Status CheckTraining(const LlmOptions& options) {
  DISTILL_RETURN_IF_ERROR(RequireValue("student_model", options.student_model));
  DISTILL_RETURN_IF_ERROR(RequireValue("dataset_name", options.sources.dataset_name));
  DISTILL_RETURN_IF_ERROR(RequireValue("output_dir", options.trainer.output_dir));
  DISTILL_RETURN_IF_ERROR(CheckModels(options));
  DISTILL_RETURN_IF_ERROR(CheckShardOptions(options.shard));
  DISTILL_RETURN_IF_ERROR(CheckPart(options));
  return CheckHeldOut(options);
}

// A batch takes data and a tokenizer, no more; the default teacher is not fetched for one.
absl::Status CheckBatch(const LlmOptions& options) {
  DISTILL_RETURN_IF_ERROR(RequireValue("dataset_name", options.sources.dataset_name));
  DISTILL_RETURN_IF_ERROR(CheckStatesAreThere(options));
  const bool has_teacher = !options.teacher_model.empty() && options.teacher_model != kDefaultTeacher;
  return has_teacher ? absl::OkStatus() : RequireValue("student_model", options.student_model);
}

// At most one of them. A plan that is asked for beside --generate is what is printed, as ever.
absl::Status CheckThingsToDo(const LlmFlags& flags) {
  std::vector<const char*> given;
  for (const auto& [name, is_given] :
       {std::pair("--publish", !flags.publish.empty()), std::pair("--plan", flags.plan),
        std::pair("--spectrum", flags.spectrum > 0), std::pair("--dry_run", flags.dry_run),
        std::pair("--generate", !flags.generate.empty()), std::pair("--show_batch", flags.show_batch)}) {
    if (is_given) given.push_back(name);
  }
  if (given.size() < 2 || (flags.publish.empty() && !flags.dry_run && flags.spectrum == 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(given[0], " and ", given[1], " are two things to do: give one of them"));
}

absl::Status CheckPublishing(const PublishOptions& options) {
  DISTILL_RETURN_IF_ERROR(RequireValue("hub_location", options.hub_location));
  if (PublishesToHub(options)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--publish sends the model to the hub, and save_location (or push_to_hub) says not to: leave one of them out");
}

absl::Status CheckGeneration(const LlmFlags& flags) {
  const bool has_prompt = !flags.prompt.empty() || !flags.prompts.empty();
  if (flags.generate.empty()) {
    if (!has_prompt && flags.answers.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("--prompt, --prompts and --answers need --generate FOLDER, the model to ask");
  }
  if (!has_prompt) return absl::InvalidArgumentError("--generate needs --prompt TEXT or --prompts FILE");
  if (std::find(flags.stop.begin(), flags.stop.end(), "") != flags.stop.end()) {
    return absl::InvalidArgumentError("--stop is empty: an answer would end at once");
  }
  const bool has_one = flags.prompt.size() == 1 && flags.prompts.empty() && flags.answers.empty();
  if (flags.stream == Switch::kTrue && !has_one) {
    return absl::InvalidArgumentError(
        "--stream prints one answer while it is made: give it one --prompt, without --prompts and --answers");
  }
  if (flags.do_sample == false && flags.sampling_temperature.value_or(0) > 0) {
    return absl::InvalidArgumentError(
        "--do_sample false takes the most likely token, whatever --sampling_temperature: give one of them");
  }
  if (flags.do_sample == true && flags.sampling_temperature == 0) {
    return absl::InvalidArgumentError(
        "--sampling_temperature 0 draws no token, and --do_sample asks to: give one of them");
  }
  return absl::OkStatus();
}

}  // namespace

LlmOptions::LlmOptions() {
  teacher_model = kDefaultTeacher;
  student_model = kDefaultStudent;
  sources.dataset_name = kDefaultDataset;
  trainer.output_dir = kDefaultOutput;
  loss.temperature = 2.0;
  loss.alpha = 0.5;
  shard.max_length = 4096;
  shard.rows_per_rank = 1;
  shard.accumulation_steps = 8;
  trainer.learning_rate = 2e-5;
  trainer.weight_decay = 0.05;
  trainer.warmup_ratio = 0.1;
  trainer.lr_scheduler_type = SchedulerType::kCosine;
  trainer.num_train_epochs = 3;
  trainer.save_steps = 1000;
  trainer.logging_steps = 1;
  trainer.seed = 42;
  trainer.bf16 = Switch::kAuto;
  trainer.whole_after_fit = false;  // it is saved, and used no more
}

void LlmOptions::Settle() {
  const bool teaches_nothing = IsOfLabelsAlone(loss) && loss.hidden_weight == 0 && teacher_model == kDefaultTeacher;
  if (teacher_model == "none" || teaches_nothing) teacher_model.clear();
}

std::string NamesByDefault(const LlmOptions& options) {
  const LlmOptions defaults;
  std::string names;
  const auto add = [&names](const char* option, const std::string& value, const std::string& otherwise) {
    if (value == otherwise) absl::StrAppend(&names, names.empty() ? "" : ", ", option, " ", value);
  };
  add("student_model", options.student_model, defaults.student_model);
  add("teacher_model", options.teacher_model, defaults.teacher_model);
  add("dataset_name", options.sources.dataset_name, defaults.sources.dataset_name);
  add("output_dir", options.trainer.output_dir, defaults.trainer.output_dir);
  return names;
}

absl::Status CheckCommand(const LlmOptions& options, const LlmFlags& flags) {
  if (!flags.plan) DISTILL_RETURN_IF_ERROR(CheckGeneration(flags));
  DISTILL_RETURN_IF_ERROR(CheckThingsToDo(flags));
  if (!flags.publish.empty()) return CheckPublishing(options.publish);
  if (flags.spectrum > 0) return RequireValue("student_model", options.student_model);
  if (!flags.spectrum_file.empty()) {
    return absl::InvalidArgumentError("spectrum_file: there is none without --spectrum, the percentage of layers");
  }
  if (flags.plan) return CheckModels(options);
  if (flags.show_batch) return CheckBatch(options);
  return flags.generate.empty() ? CheckTraining(options) : absl::OkStatus();
}

void Shrink(LlmOptions& options) {
  constexpr int64_t kSamples = 64, kHeldOut = 16, kLength = 128;
  const auto at_most = [](int64_t& value, int64_t most) { value = value == 0 ? most : std::min(value, most); };
  at_most(options.sources.max_samples, kSamples);
  // As many as hold out some, whatever the share.
  if (options.sources.validation_split > 0) {
    options.sources.max_samples += static_cast<int64_t>(std::ceil(kHeldOut / options.sources.validation_split));
  }
  at_most(options.max_eval_samples, kHeldOut);
  at_most(options.shard.max_length, kLength);
  options.shard.rows_per_rank = options.shard.held_out_rows = options.shard.accumulation_steps = 1;
  options.shard.max_tokens_per_batch = 0;
  options.tokenizing.cache_dir = "none";
  options.publish = {};
}

}  // namespace distill
