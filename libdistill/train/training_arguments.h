// Names of transformers' TrainingArguments, and of TRL's and DeepSpeed's configs, that are no options of a Trainer:
// accepted where their value asks for what happens anyway, refused otherwise.
#pragma once

namespace distill {

// What chooses kernels, precisions and optimizers.
template <class V>
void DescribeForeignCompute(V& v) {
  v.Accept("optim", {"adamw_torch", "adamw_torch_fused", "adamw", "adamw_hf"}, "AdamW is the only optimizer");
  v.Accept("optim_args", {""}, "AdamW has no other arguments than adam_beta1, adam_beta2, adam_epsilon, weight_decay");
  v.Accept("half_precision_backend", {"auto"}, "bf16 and fp16 say in which type models compute");
  v.Accept("fp16_backend", {"auto"}, "bf16 and fp16 say in which type models compute");
  v.Accept("fp16_opt_level", {"O1"}, "fp16: true computes in float16 over float32 master weights");
  v.Accept("bf16_full_eval", {"false"}, "held-out data is evaluated in the type of the training: set bf16");
  v.Accept("fp16_full_eval", {"false"}, "held-out data is evaluated in the type of the training: set fp16");
  v.Accept("tf32", {"false"}, "matrix products of float32 are exact here; bf16: true is faster still");
  v.Accept("torch_compile", {"false"}, "there is no Python to compile; what it would fuse is fused already");
  v.Accept("use_liger_kernel", {"false", "true"}, "the loss never holds whole logits, nor do other kernels need it");
  v.Accept("use_cache", {"false"}, "training keeps no keys and values");
  v.Note("gradient_checkpointing_kwargs", "gradient_checkpointing takes no arguments");
  v.Accept("auto_find_batch_size", {"false"}, "--plan tells what fits; set per_device_train_batch_size");
  v.Accept("average_tokens_across_devices", {"true"}, "losses are means over the tokens of all ranks");
  v.Accept("label_smoothing_factor", {"0", "0.0"}, "label smoothing is not supported");
  v.Accept("neftune_noise_alpha", {"0"}, "noise on embeddings is not supported");
  v.Refuse({"deepspeed", "fsdp", "fsdp_config", "zero"}, "set zero_stage to 1, 2 or 3, and nothing else");
  v.Refuse({"load_in_4bit", "load_in_8bit"}, "quantized weights are not trained");
}

// What moves data.
template <class V>
void DescribeForeignData(V& v) {
  v.Note("dataloader_persistent_workers", "the threads that make batches live as long as the run");
  v.Accept("dataloader_pin_memory", {"true"}, "batches go to a GPU out of pinned memory");
  v.Accept("dataloader_drop_last", {"false"}, "the last, short step of an epoch is kept");
  v.Accept("remove_unused_columns", {"true", "false"}, "columns that no model takes are not read");
  v.Accept("ignore_data_skip", {"false"}, "a run that resumes continues with the rows that come next");
  v.Accept("ddp_find_unused_parameters", {"false"}, "a parameter without a gradient counts as one with zeros");
  v.Accept("ddp_broadcast_buffers", {"true"},
           "rank 0's buffers are every rank's at the start, and before evaluations and checkpoints");
  v.Accept("ddp_static_graph", {"false", "true"}, "the order of gradients is learnt in the first step");
  v.Refuse({"ddp_bucket_cap_mb"}, "the buckets' size is bucket_bytes, in bytes");
}

// What says when to log, evaluate and save.
template <class V>
void DescribeForeignRecords(V& v) {
  v.Accept("eval_delay", {"0", "0.0"}, "the first evaluation comes when eval_strategy says");
  v.Accept("prediction_loss_only", {"false", "true"}, "the task says what an evaluation gathers");
  v.Note("eval_accumulation_steps", "predictions are on the host as soon as they are made");
  v.Accept("logging_strategy", {"steps"}, "logging_steps says when");
  v.Refuse({"logging_dir"}, "curves are in output_dir/tensorboard");
  v.Accept("log_level", {"passive", "info"}, "progress and warnings are always printed");
  v.Accept("log_on_each_node", {"false"}, "rank 0 alone writes progress");
  v.Accept("logging_nan_inf_filter", {"false"}, "a loss that is not finite is recorded as it is, and warned of");
  v.Accept("save_safetensors", {"true"}, "weights are saved as safetensors");
  v.Accept("save_only_model", {"false"}, "checkpoints hold all that a run needs to resume");
  v.Accept("save_on_each_node", {"false"}, "rank 0 writes checkpoints");
  v.Accept("do_train", {"true"}, "training is what this program does");
  v.Accept("do_eval", {"true"}, "held-out data is evaluated where there is some");
  v.Accept("do_predict", {"false"}, "a run trains and evaluates; it answers no rows without labels");
  v.Accept("local_rank", {"-1"}, "the launcher says who a rank is");
}

template <class V>
void DescribeTrainingArguments(V& v) {
  DescribeForeignCompute(v);
  DescribeForeignData(v);
  DescribeForeignRecords(v);
}

}  // namespace distill
