// What the program distilbert can be told: the recipe's own options, and those of the parts that it is made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/recipe/command.h"
#include "examples/recipe/script_arguments.h"
#include "examples/recipe/text_sources.h"
#include "libdistill/data/loader_options.h"
#include "libdistill/data/mlm_masking.h"
#include "libdistill/data/row_options.h"
#include "libdistill/data/shard_options.h"
#include "libdistill/optim/rate_scaling.h"
#include "libdistill/run/run_options.h"
#include "libdistill/task/masked_distillation.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

struct DistilBertOptions {
  // Those of DistilBERT's guide.
  DistilBertOptions() {
    sources.validation_split = 0.05;
    shard.rows_per_rank = 32;
    shard.global_rows = 4096;
    shard.max_length = 512;
    loss = {.temperature = 3.0, .kl_weight = 0.5, .mlm_weight = 2.0, .cosine_weight = 1.0};
    trainer.learning_rate = 5e-4;
    trainer.save_steps = 1000;
  }

  std::string teacher_model;
  std::string teacher_revision;
  std::string teacher_layers;
  std::string student_checkpoint;
  std::string student_revision;
  bool dropout = false;
  bool gradient_checkpointing = false;
  SourceOptions sources;
  std::string text_column = "text";
  int64_t max_eval_samples = 10000;
  bool use_demo_data = false;
  TokenizingOptions tokenizing;
  FieldValues kept;  // what OptionsToKeep gives once names of the hub have become folders; empty: the values here

  RunOptions run;
  RowOptions rows;
  ShardOptions shard;
  RateScalingOptions rate_scaling;
  LoaderOptions loader;
  MlmOptions masking;
  MaskedDistillerOptions loss;
  TrainerOptions trainer;
};

template <class V>
void DescribeModels(V& v, DistilBertOptions& o) {
  v.Group("Models and loss");
  v.Field("teacher_model", o.teacher_model,
          "folder of a masked language model (BERT, DistilBERT, RoBERTa), may be s3://, or a model of the hub "
          "(org/name, org/name@REVISION); may be empty when alpha and gamma are 0")
      .PathOfAnyStore()
      .Alias("teacher", "teacher_model_name", "teacher_model_name_or_path", "teacher_name_or_path", "teacher_name",
             "teacher_path");
  v.Field("teacher_revision", o.teacher_revision, "of a teacher of the hub: a branch, a tag or a commit; empty: main")
      .Alias("teacher_model_revision");
  v.Field("teacher_layers", o.teacher_layers,
          "which of the teacher's layers the student is made of, from 0: 0, 2, 4, 7, 9, 11; empty: every other one")
      .TakesList()
      .Alias("student_layers", "layer_map");
  v.Field(
       "student_checkpoint", o.student_checkpoint,
       "folder of a student in place of one made out of the teacher, may be s3://, or a model of the hub; one without "
       "weights gives random ones, drawn with seed")
      .PathOfAnyStore()
      .Alias("student_model", "student", "student_model_name_or_path", "student_path", "student_pretrained_weights");
  v.Field("student_revision", o.student_revision, "of a student of the hub: a branch, a tag or a commit; empty: main")
      .Alias("student_model_revision");
  v.Field("dropout", o.dropout, "the student drops in training what its config.json says");
  v.Field("gradient_checkpointing", o.gradient_checkpointing,
          "compute each layer again in the backward pass: slower, far less memory")
      .Alias("activation_checkpointing", "use_gradient_checkpointing");
}

template <class V>
void DescribeText(V& v, DistilBertOptions& o) {
  Describe(v, o.sources);
  v.Field("max_samples", o.sources.max_samples, AtLeast(0),
          "only the first so many usable rows of each data set; 0: all")
      .Alias("num_samples", "max_train_samples");
  v.Field("validation_split", o.sources.validation_split, Within(0, 0.9),
          "share of the samples that is held out; which ones does not change when rows are added; 0: none")
      .Alias("val_size", "eval_split_ratio", "val_set_size");
  v.Field("text_column", o.text_column, "the field of a row that holds its text")
      .Alias("text_column_name", "dataset_text_field");
  v.Field("max_eval_samples", o.max_eval_samples, AtLeast(0),
          "of the held-out pieces of text, so many are evaluated, evenly over all of them; 0: all");
  v.Field("use_demo_data", o.use_demo_data,
          "in place of dataset_name, 1,000 texts (max_samples: so many) that are generated from seed");
  Describe(v, o.tokenizing);
}

// Names of transformers' run_mlm.py.
template <class V>
void DescribeMlmScript(V& v) {
  v.Accept("line_by_line", {"true"},
           "a row is a text of its own, cut into pieces of max_length; pieces never hold two texts");
  v.Note("pad_to_max_length", "padding is not computed, so its length changes nothing");
  v.Refuse({"validation_split_percentage"}, "write the share in validation_split: 0.05 in place of 5");
  DescribeScriptArguments(v);
}

// Names of the script that DistilBERT was trained with (transformers' research project "distillation", train.py). Its
// alpha_ce, alpha_mlm and alpha_cos are names of weights already.
template <class V>
void DescribeDistilBertScript(V& v, DistilBertOptions& o) {
  constexpr const char* kMasked = "masked language models are what is trained here; distill_llm is for the others";
  constexpr const char* kAllWeights = "all of the student's weights are trained";
  v.Field("output_dir", o.trainer.output_dir, "").Alias("dump_path");
  v.Field("num_train_epochs", o.trainer.num_train_epochs, "").Alias("n_epoch");
  v.Field("warmup_ratio", o.trainer.warmup_ratio, "").Alias("warmup_prop");
  v.Field("mlm_probability", o.masking.mlm_probability, "").Alias("mlm_mask_prop");
  v.Field("mask_replace_prob", o.masking.mask_replace_prob, "").Alias("word_mask");
  v.Field("random_replace_prob", o.masking.random_replace_prob, "").Alias("word_rand");
  v.Refuse({"word_keep"}, "what mask_replace_prob and random_replace_prob leave of the chosen tokens stays: set these");
  v.Accept("restrict_ce_to_mask", {"false"}, "the divergence (alpha) is of all tokens, chosen or not");
  v.Accept("mlm", {"true"}, kMasked);
  v.Accept("alpha_clm", {"0", "0.0"}, kMasked);
  v.Accept("alpha_mse", {"0", "0.0"}, "logits are learnt by their divergence alone: alpha");
  v.Field("overwrite_output_dir", o.trainer.overwrite_output_dir, "").Alias("force");
  v.Refuse({"data_file"}, "dataset_name names rows of text, which this program tokenizes itself");
  v.Refuse({"token_counts", "mlm_smoothing"}, "all tokens are chosen alike, however rare they are");
  v.Note("student_type", "config.json says what the student is");
  v.Note("teacher_type", "config.json says what the teacher is");
  v.Refuse({"student_config"}, "student_checkpoint names a folder with the student's config.json");
  v.Refuse({"n_gpu"}, "distillrun -np says how many ranks there are");
  v.Accept("freeze_pos_embs", {"false"}, kAllWeights);
  v.Accept("freeze_token_type_embds", {"false"}, kAllWeights);
}

template <class V>
void Describe(V& v, DistilBertOptions& o) {
  Describe(v, o.trainer);
  DescribeNoAdapters(v);
  Describe(v, o.run);
  DescribeText(v, o);
  Describe(v, o.rows);
  Describe(v, o.masking);
  DescribeModels(v, o);
  Describe(v, o.loss);
  Describe(v, o.shard);
  Describe(v, o.rate_scaling);
  v.Field("per_device_train_batch_size", o.shard.rows_per_rank, "").Alias("batch_size");
  Describe(v, o.loader);
  DescribeDistilBertScript(v, o);
  DescribeMlmScript(v);
}

// InvalidArgument: what must be there or fit together beyond ranges.
[[nodiscard]] absl::Status CheckDistilBert(const DistilBertOptions& options, const RecipeFlags& flags);

// InvalidArgument: teacher_layers is no list of whole numbers.
[[nodiscard]] absl::StatusOr<std::vector<int64_t>> TeacherLayers(const DistilBertOptions& options);

}  // namespace distill
