// What polarity can be told: the recipe's own options, and those of the library's parts that it is made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "examples/recipe/command.h"
#include "examples/recipe/script_arguments.h"
#include "libdistill/data/labelled_text_dataset.h"
#include "libdistill/data/loader_options.h"
#include "libdistill/data/row_options.h"
#include "libdistill/data/shard_options.h"
#include "libdistill/optim/rate_scaling.h"
#include "libdistill/run/run_options.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

struct PolarityOptions {
  PolarityOptions() {
    shard.rows_per_rank = 32;
    shard.max_length = 128;
    trainer.learning_rate = 5e-5;
    trainer.lr_scheduler_type = SchedulerType::kLinear;
    trainer.weight_decay = 0.01;
    trainer.whole_after_fit = false;  // it is saved, and used no more
  }

  std::string dataset_name;
  std::string dataset_split = "train";
  std::string dataset_revision;
  std::string eval_dataset_name;
  std::string eval_split = "test";
  int64_t max_train_samples = 0;
  int64_t max_eval_samples = 0;
  std::string text_columns = "title,content";
  TextsForm text_form = TextsForm::kPair;
  std::string text_delimiter = " ";
  std::string label_column = "label";
  std::string labels = "negative,positive";
  int64_t first_label = 0;
  int64_t preprocessing_num_workers = 0;
  std::string student_model;
  std::string student_revision;
  std::string teacher_model;
  std::string teacher_revision;
  double alpha = 0.5;
  double temperature = 2.0;
  bool dropout = true;
  bool gradient_checkpointing = false;
  std::string results_file;
  FieldValues kept;  // what OptionsToKeep gives, once names have become folders; empty: the values here

  RunOptions run;
  RowOptions rows;
  ShardOptions shard;
  LoaderOptions loader;
  RateScalingOptions rate_scaling;
  TrainerOptions trainer;
};

// What is missing or does not fit together. A plan needs the models alone.
[[nodiscard]] absl::Status CheckPolarity(const PolarityOptions& options, const RecipeFlags& flags);

// The names of the classes, from 0; the columns whose texts a row has.
std::vector<std::string> LabelNames(const PolarityOptions& options);
std::vector<std::string> TextColumns(const PolarityOptions& options);

template <class V>
void DescribeRows(V& v, PolarityOptions& o) {
  v.Group("Data");
  v.Field("dataset_name", o.dataset_name,
          "reviews: a file of rows (.csv, .parquet, .jsonl), a folder of them, may be s3://, or a data set of the hub "
          "(org/name, org/name@REVISION)")
      .PathOfAnyStore()
      .Alias("dataset", "data", "data_path", "train_file", "train_data", "train_dataset");
  v.Field("dataset_split", o.dataset_split, "of a folder: the files whose names start with it").Alias("train_split");
  v.Field("dataset_revision", o.dataset_revision, "of data sets of the hub: a branch, a tag or a commit; empty: main");
  v.Field("eval_dataset_name", o.eval_dataset_name, "held-out reviews, as dataset_name")
      .PathOfAnyStore()
      .Alias("validation_file", "test_file", "eval_file", "eval_data", "eval_dataset", "validation_dataset");
  v.Field("eval_split", o.eval_split, "of a folder of held-out reviews: the files whose names start with it")
      .Alias("test_split");
  v.Field("max_train_samples", o.max_train_samples, AtLeast(0), "only the first so many rows; 0: all")
      .Alias("num_samples", "max_samples");
  v.Field("max_eval_samples", o.max_eval_samples, AtLeast(0), "the same of the held-out rows");
  v.Field("text_columns", o.text_columns, "columns that hold a row's texts, in order")
      .TakesList()
      .Alias("text_column_names", "text_column");
  v.Field("text_form", o.text_form,
          "pair: two texts as the tokenizer joins them, [CLS] title [SEP] content [SEP]; joined: one text")
      .Similar("text_pair");
  v.Field("text_delimiter", o.text_delimiter, "between joined texts").Alias("text_column_delimiter");
  v.Field("label_column", o.label_column, "column that holds the class: a number, or one of the labels")
      .Alias("label_column_name");
  v.Field("labels", o.labels, "names of the classes, from the first").TakesList();
  v.Field("first_label", o.first_label, AtLeast(0), "number that rows have for the first class: 0, or 1");
  v.Field("preprocessing_num_workers", o.preprocessing_num_workers, Within(0, 4096),
          "threads that tokenize rows; 0: as many as this rank computes with")
      .Alias("dataset_num_proc", "num_proc");
  v.Note("pad_to_max_length", "padding is not computed, so its length changes nothing");
  v.Accept("metric_name", {"accuracy"}, "accuracy is what is measured");
  v.Accept("shuffle_train_dataset", {"false", "true"}, "each epoch is shuffled with seed");
  v.Refuse({"task_name"},
           "there are no named tasks: dataset_name, text_columns, label_column and labels say what is learnt");
  v.Refuse({"max_predict_samples"}, "rows without labels are not classified: max_eval_samples is of those with labels");
}

template <class V>
void DescribeClassifiers(V& v, PolarityOptions& o) {
  v.Group("Models and loss");
  v.Field("student_model", o.student_model,
          "folder of a BERT or DistilBERT model, may be s3://, or a model of the hub; one without weights gives random "
          "ones, drawn with seed")
      .PathOfAnyStore()
      .Alias("model_name_or_path", "model", "model_name", "model_path", "student", "student_model_path");
  v.Field("student_revision", o.student_revision, "of a student of the hub: a branch, a tag or a commit; empty: main")
      .Alias("model_revision", "revision");
  v.Field("teacher_model", o.teacher_model,
          "a classifier of the same labels to learn from, as student_model; empty: labels alone")
      .PathOfAnyStore()
      .Alias("teacher", "teacher_model_name_or_path", "teacher_model_path");
  v.Field("teacher_revision", o.teacher_revision, "of a teacher of the hub: a branch, a tag or a commit; empty: main");
  v.Field("alpha", o.alpha, Within(0, 1), "with a teacher: weight of its divergence; the labels have the rest");
  v.Field("temperature", o.temperature, AtLeast(0.01), "of both distributions of the divergence");
  v.Field("dropout", o.dropout, "drop in training what config.json says");
  v.Accept("ignore_mismatched_sizes", {"false"},
           "a classifier of other labels is refused: take the model that it was trained from, whose head is drawn");
  DescribeScriptArguments(v);
  v.Group("Training");
  v.Field("gradient_checkpointing", o.gradient_checkpointing,
          "compute each layer again in the backward pass: slower, far less memory");
}

template <class V>
void Describe(V& v, PolarityOptions& o) {
  Describe(v, o.trainer);
  DescribeNoAdapters(v);
  Describe(v, o.run);
  DescribeRows(v, o);
  Describe(v, o.rows);
  DescribeClassifiers(v, o);
  Describe(v, o.shard);
  Describe(v, o.rate_scaling);
  Describe(v, o.loader);
  v.Group("Logging and checkpoints");
  v.Field(
       "results_file", o.results_file,
       "a line of JSON is appended to this file at the end: size of the job, time, samples a second, accuracy; may be "
       "s3://")
      .PathOfAnyStore()
      .Alias("json");
}

}  // namespace distill
