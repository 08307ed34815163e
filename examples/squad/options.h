// What squad can be told, by the names of transformers' run_qa.py and with its defaults.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "examples/recipe/command.h"
#include "examples/recipe/script_arguments.h"
#include "examples/squad/decode.h"
#include "libdistill/data/loader_options.h"
#include "libdistill/data/row_options.h"
#include "libdistill/data/shard_options.h"
#include "libdistill/optim/rate_scaling.h"
#include "libdistill/run/run_options.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

struct SquadOptions {
  SquadOptions() {
    shard.max_length = 384;
    shard.rows_per_rank = 8;
    trainer.learning_rate = 5e-5;
    trainer.weight_decay = 0;
    trainer.warmup_ratio = 0;
    trainer.lr_scheduler_type = SchedulerType::kLinear;
    trainer.save_steps = 500;
    trainer.whole_after_fit = false;  // it is saved, and used no more
  }

  std::string model_name_or_path;
  std::string model_revision;
  std::string teacher_model;
  std::string teacher_revision;
  double alpha = 0.5;
  double temperature = 2.0;
  bool dropout = true;
  bool gradient_checkpointing = false;

  bool do_train = false;
  bool do_eval = false;
  std::string dataset_name;
  std::string dataset_revision;
  std::string train_file;
  std::string validation_file;
  int64_t max_train_samples = 0;
  int64_t max_eval_samples = 0;
  int64_t doc_stride = 128;
  FieldValues kept;  // what OptionsToKeep gives, once names have become folders; empty: the values here

  DecodeOptions decode;
  RunOptions run;
  RowOptions rows;
  ShardOptions shard;
  RateScalingOptions rate_scaling;
  LoaderOptions loader;
  TrainerOptions trainer;
};

// Instead of training: one answer.
struct SquadFlags : RecipeFlags {
  std::string question;
  std::string context;
};

// What must be there, or fit together. InvalidArgument names the option.
[[nodiscard]] absl::Status CheckSquad(const SquadOptions& options, const SquadFlags& flags);

template <class V>
void DescribeQuestions(V& v, SquadOptions& o) {
  v.Group("Data");
  v.Field("dataset_name", o.dataset_name,
          "data: a folder of rows (train*, validation*), may be s3://, or a data set of the hub (org/name, squad, "
          "squad_v2)")
      .PathOfAnyStore()
      .Alias("dataset");
  v.Field("dataset_revision", o.dataset_revision, "of a data set of the hub: a branch, a tag or a commit; empty: main");
  v.Field("train_file", o.train_file,
          "training data in place of dataset_name: SQuAD's own .json (v1.1, v2.0), or rows (.jsonl, .parquet, .csv)")
      .PathOfAnyStore();
  v.Field("validation_file", o.validation_file, "held-out data in place of dataset_name, in the same forms")
      .PathOfAnyStore()
      .Alias("eval_file");
  v.Field("max_train_samples", o.max_train_samples, AtLeast(0), "only the first so many questions are trained; 0: all");
  v.Field("max_eval_samples", o.max_eval_samples, AtLeast(0), "only the first so many are evaluated; 0: all");
  v.Field("doc_stride", o.doc_stride, AtLeast(0), "tokens of the context that a window shares with the one before it");
  v.Note("pad_to_max_length", "padding is neither computed nor an answer, so its length changes nothing");
  v.Note("preprocessing_num_workers", "questions are tokenized while they are read");
  v.Note("overwrite_cache", "tokens are kept in memory alone");
  v.Note("cache_dir", "HF_HOME says where what is fetched of the hub is kept");
  v.Accept("dataset_config_name", {"", "plain_text", "squad_v2"}, "a data set of the hub has its folder in its name");
  v.Refuse({"test_file", "max_predict_samples"}, "questions without answers are what `squad answer` is for");
}

template <class V>
void DescribeSquadModels(V& v, SquadOptions& o) {
  v.Group("Models and loss");
  v.Field("model_name_or_path", o.model_name_or_path,
          "model folder, may be s3://, or a model of the hub (org/name, org/name@REVISION); one without weights gives "
          "random ones, drawn with seed")
      .PathOfAnyStore()
      .Alias("student_model", "model_name", "model_path", "model");
  v.Field("model_revision", o.model_revision, "of a model of the hub: a branch, a tag or a commit; empty: main");
  v.Field("dropout", o.dropout, "drop in training what the model's config.json says");
  v.Field("gradient_checkpointing", o.gradient_checkpointing,
          "compute each layer again in the backward pass: slower, far less memory");
  v.Field("teacher_model", o.teacher_model,
          "a model that is trained for questions already: the logits of start and end are learnt from it; empty: none")
      .PathOfAnyStore()
      .Alias("teacher_name_or_path", "teacher", "teacher_model_name_or_path");
  v.Field("teacher_revision", o.teacher_revision, "of a teacher of the hub: a branch, a tag or a commit; empty: main");
  v.Field("alpha", o.alpha, Within(0, 1), "of teacher_model: share of the divergence; the rest is cross-entropy");
  v.Field("temperature", o.temperature, AtLeast(0.01), "of teacher_model: of both distributions of the divergence");
  DescribeScriptArguments(v);
}

template <class V>
void Describe(V& v, SquadOptions& o) {
  v.Group("Run");
  v.Field("do_train", o.do_train, "train on the training data");
  v.Field("do_eval", o.do_eval, "evaluate on the held-out data: at the end, and as eval_strategy says");
  Describe(v, o.trainer);
  DescribeNoAdapters(v);
  Describe(v, o.run);
  DescribeQuestions(v, o);
  Describe(v, o.rows);
  DescribeSquadModels(v, o);
  Describe(v, o.decode);
  Describe(v, o.shard);
  Describe(v, o.rate_scaling);
  Describe(v, o.loader);
}

template <class V>
void Describe(V& v, SquadFlags& o) {
  Describe(v, static_cast<RecipeFlags&>(o));
  v.Field("question", o.question, "answer this question by the text in --context, with model_name_or_path");
  v.Field("context", o.context, "the file with the text").PathOfAnyStore();
}

}  // namespace distill
