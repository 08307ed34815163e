// Names of TRL's, transformers' and DistillKit's configs that no part of the library knows (those that a Trainer
// answers for are in libdistill/train/training_arguments.h): accepted where their value asks for what happens anyway,
// refused otherwise.
#pragma once

namespace distill {

template <class V>
void DescribeTheirRows(V& v) {
  constexpr const char* kOneLoss = "only what the assistant wrote has a loss, always";
  constexpr const char* kRows = "dataset_name, dataset_split and eval_dataset_name say which rows are read";
  constexpr const char* kChats = "rows are conversations (docs/formats.md), tokenized at the start";
  constexpr const char* kPacking = "packing: true fills rows with whole samples, without attention across them";
  constexpr const char* kTokens = "the model's folder names its tokens";
  v.Accept("assistant_only_loss", {"true"}, kOneLoss);
  v.Accept("completion_only_loss", {"true"}, kOneLoss);
  v.Accept("dataset_text_field", {"messages", "text"}, kChats);
  v.Refuse({"dataset_kwargs", "prepared_dataset_path"}, kChats);
  v.Refuse({"dataset_config", "dataset_config_name"},
           "a config of a data set of the hub is named with it: hf://ORG/NAME/CONFIG");
  v.Accept("dataset_streaming", {"false"}, kRows);
  v.Accept("packing_strategy", {"bfd"}, kPacking);
  v.Accept("padding_free", {"false"}, kPacking);
  v.Refuse({"eval_packing", "functionary_packing", "prepacked"}, kPacking);
  v.Accept("truncation_mode", {"keep_start"}, "longer samples keep their start");
  v.Accept("shuffle_dataset", {"false", "true"}, "each epoch is shuffled, from seed");
  v.Refuse({"eos_token", "pad_token", "eos_label_token_ids"}, kTokens);
  v.Refuse({"pad_to_multiple_of", "resize_embeddings_to_multiple_of"}, "leave it out: the shapes stay as they are");
  v.Accept("dataloader_in_order", {"true"}, "one thread makes batches ahead, in order");
  v.Refuse({"dataloader_multiprocessing_context"}, "one thread makes batches ahead, in order");
}

template <class V>
void DescribeTheirModelsAndLosses(V& v) {
  constexpr const char* kConfig = "config.json in the folder says what the model is";
  constexpr const char* kFolder = "models are read by this library; no code of theirs runs";
  constexpr const char* kLoss =
      "the loss is cross-entropy and a divergence: alpha, divergence, temperature; others are written in C++ "
      "(docs/extending.md)";
  constexpr const char* kRowsOnly = "the student learns from the rows of the data set, not from its own answers";
  v.Refuse({"model_init_kwargs", "model_kwargs", "model_auto_class"}, kConfig);
  v.Accept("trust_remote_code", {"false"}, kFolder);
  v.Section(
      "teacher",
      {{"path", "teacher_model"}, {"kind", "teacher_kind"}, {"kwargs", "teacher_kwargs"}, {"top_k", "teacher_top_k"}});
  v.Accept("teacher_kind", {"hf"}, "teacher_model is a model folder");
  v.Refuse({"teacher_kwargs", "teacher_model_init_kwargs"}, "teacher_model is a model folder");
  v.Refuse({"teacher_top_k"}, "divergence topk_kl learns the likeliest top_k_logits and the rest");
  v.Accept("loss_type", {"nll"}, kLoss);
  v.Refuse({"loss_functions"}, kLoss);
  v.Refuse({"layer_mapping", "force_hidden_state_projection"},
           "hidden_weight and layer_map (STUDENT:TEACHER,...) compare states, always after a projection");
  v.Accept("lmbda", {"0", "0.0"}, kRowsOnly);
  v.Accept("seq_kd", {"false"}, kRowsOnly);
  v.Accept("disable_dropout", {"true"}, "no dropout in a decoder unless a program asks for it");
  v.Accept("activation_offloading", {"false"}, "gradient_checkpointing: true saves memory");
  v.Refuse({"frozen_modules", "frozen_res"}, "layers_to_unfreeze says what is trained");
  v.Refuse({"lora_target_parameters", "lora_modules_to_save"},
           "adapters stand beside the blocks' matrices (lora_target_modules), and nothing else is trained with them");
  v.Accept("lora_task_type", {"CAUSAL_LM"}, "the student is a decoder");
  v.Accept("use_dora", {"false"}, "adapters are plain or rank-stabilised (use_rslora)");
  v.Refuse({"router_aux_loss_coef"}, "mixtures of experts are teachers, and are not trained");
}

template <class V>
void DescribeTheirRuns(V& v) {
  constexpr const char* kOnce = "the student is published once, at the end of the run";
  constexpr const char* kCurves = "report_to: curves are in output_dir, as JSON lines, TensorBoard or CSV";
  constexpr const char* kRanks = "the launcher says how many ranks there are, zero_stage what they shard";
  constexpr const char* kEvaluation = "the task says what an evaluation gathers";
  constexpr const char* kRecords = "leave it out; metrics.jsonl has what each step took";
  v.Section("training_args");
  v.Accept("hub_always_push", {"false"}, kOnce);
  v.Accept("hub_strategy", {"end"}, kOnce);
  v.Refuse({"hub_token", "push_to_hub_token", "hf_token", "use_auth_token", "auth_token", "token"},
           "the token comes from HF_TOKEN, or from `hf auth login`");
  v.Refuse({"trackio_bucket_id", "trackio_space_id", "trackio_static_space_id"}, kCurves);
  v.Refuse({"torch_compile_backend", "torch_compile_mode"}, "there is nothing to compile");
  v.Refuse({"accelerator_config", "parallelism_config"}, kRanks);
  v.Accept("ignore_bias_buffers", {"false"}, kRanks);
  v.Note("activation_checkpointing_kwargs", "gradient_checkpointing takes no arguments");
  v.Refuse({"liger_kernel_config"}, "the loss never holds whole logits");
  v.Refuse({"optim_target_modules"}, "AdamW is the only optimizer");
  v.Accept("eval_do_concat_batches", {"true"}, kEvaluation);
  v.Accept("eval_use_gather_object", {"false"}, kEvaluation);
  v.Accept("batch_eval_metrics", {"false"}, kEvaluation);
  v.Refuse({"include_for_metrics", "label_names"}, kEvaluation);
  v.Accept("enable_jit_checkpoint", {"true"}, "SIGTERM and SIGUSR1 always save a checkpoint (docs/operations.md)");
  v.Accept("restore_callback_states_from_checkpoint", {"true"}, "a run that resumes has all its state");
  v.Accept("skip_memory_metrics", {"true"}, kRecords);
  v.Accept("include_num_input_tokens_seen", {"false", "no"}, kRecords);
  v.Refuse({"log_level_replica", "debug", "torch_empty_cache_steps"}, kRecords);
}

template <class V>
void DescribeOtherTools(V& v) {
  DescribeTheirRows(v);
  DescribeTheirModelsAndLosses(v);
  DescribeTheirRuns(v);
}

}  // namespace distill
