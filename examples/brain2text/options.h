// What brain2text can be told: the recipe's own options, by the names of rnn_args.yaml, and those of the library's
// parts that it is made of. Sees no torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/brain2text/augmentation.h"
#include "examples/brain2text/model_options.h"
#include "examples/brain2text/rnn_args.h"
#include "examples/recipe/command.h"
#include "examples/recipe/script_arguments.h"
#include "libdistill/data/loader_options.h"
#include "libdistill/run/run_options.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

// How classes are read off the frames.
enum class CtcDecoder { kGreedy, kBeam };
constexpr EnumNames<CtcDecoder, 2> NamesOf(CtcDecoder) {
  return {{{"greedy", CtcDecoder::kGreedy}, {"beam", CtcDecoder::kBeam}}};
}

// Rates of the day layers; what is not set is as of all other parameters.
struct DayRates {
  std::optional<double> lr_max_day, lr_min_day, weight_decay_day;
  std::optional<int64_t> lr_warmup_steps_day, lr_decay_steps_day;
};

struct Brain2TextOptions {
  Brain2TextOptions();

  std::string dataset_dir;
  std::string dataset_probability_val;  // 0 or 1 for each session, with commas; empty: all 1
  std::string feature_subset;           // indices, with commas; empty: all features
  int64_t batch_size = 64;              // of a step, over all ranks
  int64_t gradient_accumulation_steps = 1;
  int64_t days_per_batch = 4;
  int64_t draw_seed = 1;  // dataset.seed: of which trials are in which batch
  int64_t max_seq_elements = 500;
  std::string input_layer_sizes;  // that of the one day layer there is
  bool rnn_trainable = true;
  bool input_trainable = true;

  double lr_min = 1e-4;
  std::optional<int64_t> lr_decay_steps;
  DayRates day;

  std::string checkpoint_dir;  // empty: "checkpoint" in output_dir
  bool save_best_checkpoint = true;
  bool early_stopping = false;
  int64_t early_stopping_val_steps = 20;
  bool log_individual_day_val_per = true;

  CtcDecoder decoder = CtcDecoder::kGreedy;
  int64_t beam_width = 16;

  std::string teacher_model;
  double temperature = 2;
  double alpha = 0.5;

  BrainModelOptions model;
  AugmentationOptions augmentation;
  LoaderOptions loader;
  RunOptions run;
  TrainerOptions trainer;
};

// What to do instead of training; on the command line alone.
struct Brain2TextFlags : RecipeFlags {
  std::string predict;  // a split
  std::string trained_model;
  std::string predictions;  // the file that is written
  std::string compare_dataset_dir;
  int64_t compare_batches = 50;
  std::optional<int64_t> trial_bins;  // of a plan
};

// What must be there or fit together. Errors name the option.
[[nodiscard]] absl::Status CheckBrain2Text(const Brain2TextOptions& options, const Brain2TextFlags& flags);

// The options that a run really has: the trainer's schedule, groups of parameters and evaluations follow from the names
// of rnn_args.yaml. Settled options stay as they are.
Brain2TextOptions Settle(Brain2TextOptions options);

// Whether each session has held-out data. InvalidArgument: not one number, 0 or 1, for each session.
[[nodiscard]] absl::StatusOr<std::vector<bool>> HeldOutSessions(const Brain2TextOptions& options);
// InvalidArgument: not numbers of features.
[[nodiscard]] absl::StatusOr<std::vector<int64_t>> FeatureSubset(const Brain2TextOptions& options);

template <class V>
void DescribeBrainData(V& v, Brain2TextOptions& o) {
  v.Group("Data");
  v.Field("dataset_dir", o.dataset_dir,
          "folder of the sessions' folders, each with data_train.hdf5 and, where it is held out, data_val.hdf5; may be "
          "s3://")
      .PathOfAnyStore()
      .Similar("dataset_name", "data_dir");
  v.Field("dataset_probability_val", o.dataset_probability_val,
          "for each session 1 where it has held-out data, else 0; empty: all have")
      .TakesList();
  v.Field("feature_subset", o.feature_subset, "features that are read, as numbers from 0; empty: all").TakesList();
  v.Field("batch_size", o.batch_size, Within(1, 1 << 20), "trials of a step, over all ranks")
      .Similar("per_device_train_batch_size", "global_batch_size");
  v.Field("days_per_batch", o.days_per_batch, Within(1, 1 << 16), "days that the trials of a step are of");
  v.Field("draw_seed", o.draw_seed, "of which trials are in which batch; dataset.seed of rnn_args.yaml");
  v.Field("max_seq_elements", o.max_seq_elements, Within(1, 1 << 20), "most classes of a trial's target");
}

template <class V>
void DescribeBrainTraining(V& v, Brain2TextOptions& o) {
  v.Group("Training");
  v.Field("gradient_accumulation_steps", o.gradient_accumulation_steps, Within(1, 1 << 20), "micro-batches of a step");
  v.Field("lr_min", o.lr_min, AtLeast(0), "lowest learning rate, at the end of the cosine");
  v.Field("lr_decay_steps", o.lr_decay_steps, AtLeast(1), "steps until then: as many as there are");
  v.Field("lr_max_day", o.day.lr_max_day, AtLeast(0), "highest learning rate of the day layers; empty: learning_rate");
  v.Field("lr_min_day", o.day.lr_min_day, AtLeast(0), "their lowest; empty: lr_min");
  v.Field("lr_warmup_steps_day", o.day.lr_warmup_steps_day, AtLeast(0), "their warm-up; empty: warmup_steps");
  v.Field("lr_decay_steps_day", o.day.lr_decay_steps_day, AtLeast(1), "steps of their cosine: as many as there are");
  v.Field("weight_decay_day", o.day.weight_decay_day, AtLeast(0), "their weight decay; empty: weight_decay");
  v.Field("rnn_trainable", o.rnn_trainable, "false: the GRU stays as it is");
  v.Field("input_trainable", o.input_trainable, "false: the day layers stay as they are");
  v.Field("input_layer_sizes", o.input_layer_sizes, "units of a day layer: n_input_features").TakesList();
  v.Group("Evaluation");
  v.Field("decoder", o.decoder, "how classes are read off: the best of each frame, or prefix beam search");
  v.Field("beam_width", o.beam_width, Within(1, 1 << 16), "prefixes that beam search keeps");
  v.Field("log_individual_day_val_PER", o.log_individual_day_val_per, "error rates of each day, beside that of all");
  v.Field("checkpoint_dir", o.checkpoint_dir, "where best_checkpoint is written; empty: checkpoint in output_dir")
      .PathOfAnyStore();
  v.Field("save_best_checkpoint", o.save_best_checkpoint,
          "the model with the lowest error rate so far is kept in checkpoint_dir/best_checkpoint");
  v.Field("early_stopping", o.early_stopping, "training ends where evaluations bring no better error rate");
  v.Field("early_stopping_val_steps", o.early_stopping_val_steps, AtLeast(1), "after so many of them in a row");
  v.Group("Distillation");
  v.Field("teacher_model", o.teacher_model,
          "folder of a trained model whose frames the student learns, too; may be s3://; empty: labels alone")
      .PathOfAnyStore();
  v.Field("temperature", o.temperature, Above(0), "of both models' frames in the divergence");
  v.Field("alpha", o.alpha, Within(0, 1), "weight of the divergence; CTC has the rest");
}

template <class V>
void Describe(V& v, Brain2TextOptions& o) {
  // First, since what rnn_args.yaml calls beta1 is the second one.
  v.Group("Training");
  v.Field("adam_beta2", o.trainer.adam_beta2, FromUpTo(0, 1), "how long AdamW's mean of squared gradients remembers")
      .Alias("beta1");
  Describe(v, o.trainer);
  DescribeNoAdapters(v);
  Describe(v, o.run);
  DescribeBrainData(v, o);
  Describe(v, o.loader);
  Describe(v, o.augmentation);
  Describe(v, o.model);
  DescribeBrainTraining(v, o);
  DescribeRnnArgs(v, o.trainer);
}

template <class V>
void Describe(V& v, Brain2TextFlags& o) {
  Describe(v, static_cast<RecipeFlags&>(o));
  v.Field("predict", o.predict,
          "write what --trained_model spells of this split (train, val or test), and its error rate");
  v.Field("trained_model", o.trained_model,
          "the folder of a trained model, as checkpoint/best_checkpoint; may be s3://")
      .PathOfAnyStore();
  v.Field("predictions", o.predictions, "the CSV file for it; empty: SPLIT_predictions.csv in the model's folder")
      .PathOfAnyStore();
  v.Field("compare_dataset_dir", o.compare_dataset_dir,
          "train the same batches from here and from dataset_dir, and print how much slower the latter is")
      .PathOfAnyStore();
  v.Field("compare_batches", o.compare_batches, Within(4, 1 << 20), "batches of each");
  v.Field("trial_bins", o.trial_bins, Within(1, 1 << 20),
          "time bins of a trial to --plan for; otherwise the most that one in dataset_dir has, where that is on this "
          "host, or 500");
}

}  // namespace distill
