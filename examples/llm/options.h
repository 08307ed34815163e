// What distill_llm can be told: the recipe's own options, and those of the library's parts that it is made of.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "examples/llm/flags.h"
#include "examples/llm/other_tools.h"
#include "examples/recipe/command.h"
#include "examples/recipe/text_sources.h"
#include "libdistill/data/loader_options.h"
#include "libdistill/data/row_options.h"
#include "libdistill/data/shard_options.h"
#include "libdistill/loss/distillation_options.h"
#include "libdistill/nn/adapter_options.h"
#include "libdistill/optim/rate_scaling.h"
#include "libdistill/run/run_options.h"
#include "libdistill/store/publish_options.h"
#include "libdistill/text/chat_template.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

// What distil_logits_cli.py trains where it is told nothing else.
inline constexpr char kDefaultTeacher[] = "arcee-ai/Arcee-Spark", kDefaultStudent[] = "Qwen/Qwen2-1.5B";
inline constexpr char kDefaultDataset[] = "mlabonne/FineTome-100k", kDefaultOutput[] = "/fsx/model";

struct LlmOptions {
  // Defaults are distil_logits_cli.py's.
  LlmOptions();
  // What options that were given make of others: a teacher "none" is none, and the default one is none where alpha is
  // 0, since nothing would be learnt from it.
  void Settle();

  std::string project_name = "distil-logits";
  SourceOptions sources;  // whose max_samples is num_samples here
  std::string eval_dataset_name;
  std::string eval_split = "test";
  int64_t max_eval_samples = 0;
  std::string chat_template;
  TrainOn train_on = TrainOn::kAll;
  TokenizingOptions tokenizing;
  std::string teacher_model;
  std::string student_model;
  std::string teacher_revision;
  std::string student_revision;
  FieldValues kept;  // what OptionsToKeep (examples/recipe/kept_options.h) gives, once names have become folders
                     // (sources.h); empty: the values here
  std::string layers_to_unfreeze;
  bool use_peft = false;
  AdapterOptions adapters;  // of which base_model and seed are found elsewhere
  bool use_flash_attention = false;
  bool shard_teacher = false;
  bool gradient_checkpointing = false;

  RunOptions run;
  PublishOptions publish;
  RowOptions rows;
  ShardOptions shard;
  RateScalingOptions rate_scaling;
  LoaderOptions loader;
  DistillationOptions loss;
  TrainerOptions trainer;
};

using LlmCommand = RecipeCommand<LlmOptions, LlmFlags>;

inline constexpr ProgramText kDistillLlm = {"distill_llm",
                                            "Trains a small language model from the logits of a large one."};

// "student_model Qwen/Qwen2-1.5B, ...": the models, data and place that nobody chose, or that are the defaults anyway;
// "" where there are none.
std::string NamesByDefault(const LlmOptions& options);

// InvalidArgument: options that are missing or exclude one another. Generation requires none, a plan only the models, a
// batch data and a tokenizer.
[[nodiscard]] absl::Status CheckCommand(const LlmOptions& options, const LlmFlags& flags);

// --dry_run: a few short samples, whose tokens are not kept; nothing is published.
void Shrink(LlmOptions& options);

template <class V>
void DescribeData(V& v, LlmOptions& o) {
  v.Group("Data");
  Describe(v, o.sources);
  v.Field("num_samples", o.sources.max_samples, AtLeast(0),
          "only the first so many usable rows of each data set; 0: all")
      .Alias("max_samples", "max_train_samples");
  v.Field("validation_split", o.sources.validation_split, Within(0, 0.9),
          "share of the samples that is held out in place of eval_dataset_name; which ones does not change when rows "
          "are added; 0: none")
      .Alias("val_size", "eval_split_ratio", "val_set_size");
  v.Field("eval_dataset_name", o.eval_dataset_name, "held-out data, as dataset_name")
      .PathOfAnyStore()
      .Alias("validation_file", "eval_file", "eval_data", "eval_dataset", "validation_dataset");
  v.Field("max_eval_samples", o.max_eval_samples, AtLeast(0),
          "only the first so many usable rows of eval_dataset_name; 0: all")
      .Alias("num_eval_samples");
  v.Field("eval_split", o.eval_split, "of a folder of held-out data: the files whose names start with it")
      .Alias("dataset_test_split", "test_split");
  v.Field("chat_template", o.chat_template,
          "chatml, llama3, a Jinja file or template text; auto or empty: the tokenizer's own")
      .Alias("chat_template_path");
  Describe(v, o.tokenizing);
  v.Field("train_on", o.train_on, "which of a conversation's answers have a loss: all, or the last one alone");
}

template <class V>
void DescribeModels(V& v, LlmOptions& o) {
  v.Group("Models and loss");
  v.Field("teacher_model", o.teacher_model,
          "model folder, may be s3://, or a model of the hub (org/name, org/name@REVISION); may be quantised (FP8, "
          "MXFP4, GGUF); "
          "none or empty, and the default where alpha is 0: no teacher, for an alpha of 0")
      .PathOfAnyStore()
      .Alias("teacher", "teacher_model_name_or_path", "teacher_name_or_path", "teacher_path", "teacher_model_path");
  v.Field("student_model", o.student_model,
          "model folder, may be s3://, or a model of the hub; one without weights gives random ones, drawn with seed")
      .PathOfAnyStore()
      .Alias("student", "model", "model_name", "model_name_or_path", "model_path", "base_model", "train_model",
             "student_model_name_or_path", "student_path", "student_model_path");
  v.Field("teacher_revision", o.teacher_revision, "of a teacher of the hub: a branch, a tag or a commit; empty: main")
      .Alias("teacher_model_revision");
  v.Field("student_revision", o.student_revision, "of a student of the hub: a branch, a tag or a commit; empty: main")
      .Alias("model_revision", "revision");
  v.Field("use_flash_attention", o.use_flash_attention,
          "take torch's flash kernels and no others; needs a GPU and bf16")
      .Alias("flash_attention", "use_flash_attn", "flash_attn")
      .AliasOf("attn_implementation", {{"flash_attention_2", "true"}, {"sdpa", "false"}, {"eager", "false"}});
  v.Field("layers_to_unfreeze", o.layers_to_unfreeze,
          "YAML file, may be s3://, whose list unfrozen_parameters names what of the student is trained, by regular "
          "expressions (docs/partial_training.md); empty: all of it")
      .PathOfAnyStore();
  v.Group("Adapters");
  v.Field("use_peft", o.use_peft,
          "train low-rank adapters beside the student's matrices, which are frozen (docs/partial_training.md)")
      .Alias("use_lora");
  Describe(v, o.adapters);
  v.Group("Training");
  v.Field("shard_teacher", o.shard_teacher,
          "each rank keeps a share of the weights of the teacher's blocks, as zero_stage 3 does of the student's");
  v.Field("gradient_checkpointing", o.gradient_checkpointing,
          "compute each layer again in the backward pass: slower, far less memory")
      .Alias("activation_checkpointing", "use_gradient_checkpointing", "recompute", "checkpoint_activations");
}

// Maps of a config file: DistillKit's, and two that are shorter to write.
template <class V>
void DescribeSections(V& v) {
  v.Section("dataset", {{"name", "dataset_name"}, {"split", "dataset_split"}, {"eval_name", "eval_dataset_name"}});
  v.Section("models", {{"teacher", "teacher_model"}, {"student", "student_model"}});
  v.Section("model", {{"teacher", "teacher_model"}, {"student", "student_model"}});
  for (const char* name : {"tokenizer", "training", "distillation", "model_config", "spectrum"}) v.Section(name);
}

template <class V>
void Describe(V& v, LlmOptions& o) {
  v.Group("Run");
  v.Field("project_name", o.project_name, "name of the project, in logs")
      .Alias("project", "wandb_project", "experiment_name");
  Describe(v, o.trainer);
  Describe(v, o.publish);
  Describe(v, o.run);
  DescribeData(v, o);
  Describe(v, o.rows);
  DescribeModels(v, o);
  Describe(v, o.shard);
  Describe(v, o.rate_scaling);
  Describe(v, o.loader);
  Describe(v, o.loss);
  DescribeSections(v);
  DescribeOtherTools(v);
}

}  // namespace distill
