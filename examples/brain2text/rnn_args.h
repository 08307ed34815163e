// The public baseline's rnn_args.yaml (Brain-to-Text '25, model_training/rnn_args.yaml): its names for the trainer's
// options, its keys that are no options here, and its maps.
#pragma once

#include "libdistill/train/trainer_options.h"

namespace distill {

// `trainer`: of the recipe's options.
template <class V>
void DescribeRnnArgs(V& v, TrainerOptions& trainer) {
  v.Group("Training");
  v.Field("max_steps", trainer.max_steps, "").Alias("num_training_batches");
  v.Field("learning_rate", trainer.learning_rate, "").Alias("lr_max");
  v.Field("adam_beta1", trainer.adam_beta1, "").Alias("beta0");
  v.Field("adam_epsilon", trainer.adam_epsilon, "").Alias("epsilon");
  v.Field("max_grad_norm", trainer.max_grad_norm, "").Alias("grad_norm_clip_value");
  v.Field("eval_steps", trainer.eval_steps, "").Alias("batches_per_val_step");
  v.Field("logging_steps", trainer.logging_steps, "").Alias("batches_per_train_log");
  v.Field("save_steps", trainer.save_steps, "").Alias("batches_per_save");
  v.Field("bf16", trainer.bf16, "").AliasOf("use_amp", {{"true", "auto"}, {"false", "false"}});
  v.Accept("mode", {"train"}, "--predict SPLIT evaluates");
  v.Note("gpu_number", "each rank takes the GPU that its launcher gives it");
  v.Accept("n_input_layers", {"1"}, "each day has one input layer");
  v.Accept("init_from_checkpoint", {"false"},
           "resume_from_checkpoint resumes a run; files of torch.save are not read here");
  v.Accept("init_checkpoint_path", {"none", ""},
           "resume_from_checkpoint resumes a run; files of torch.save are not read here");
  v.Accept("save_all_val_steps", {"false"}, "save_steps says when checkpoints are saved; set it to eval_steps");
  v.Note("save_final_model", "the trained model is always in output_dir");
  v.Note("save_val_metrics", "metrics.jsonl has the metrics of all evaluations");
  v.Note("log_val_skip_logs", "sessions without held-out data are passed over without a line");
  v.Note("save_val_logits", "logits are not kept; --predict val writes what a model spells");
  v.Accept("save_val_data", {"false"}, "held-out data lie in dataset_dir already");
  v.Note("loader_shuffle", "batches are drawn at random anyway (draw_seed)");
  v.Note("test_percentage", "splits are files: data_train.hdf5, data_val.hdf5 and data_test.hdf5");
  v.Refuse({"must_include_days"}, "days of a batch are drawn at random, as the Python trainer does whatever it says");
  v.Refuse({"bad_trials_dict"}, "the Python trainer does not look at it either; leave bad trials out of the files");
  v.Section("model.input_network");
  v.Section("input_network");
  v.Section("model");
  v.Section("dataset.data_transforms");
  v.Section("data_transforms");
  v.Section("dataset", {{"seed", "draw_seed"}});
}

}  // namespace distill
