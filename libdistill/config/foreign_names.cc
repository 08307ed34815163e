#include "libdistill/config/foreign_names.h"

namespace distill {
namespace {

// Only what means the same, or is chosen by the same setting.
std::vector<ForeignNames> MakeForeignNames() {
  return {
      {"config_file", {"config", "config_path", "yaml", "recipe"}},
      {"project_name", {"run_name", "wandb_project", "experiment_name"}},
      {"output_dir", {"output", "out", "out_dir", "output_path", "save_dir", "save_path"}},
      {"overwrite_output_dir", {"overwrite", "force", "overwrite_output"}},
      {"seed", {"random_seed", "manual_seed", "data_seed"}},
      {"device", {"use_cpu", "no_cuda", "accelerator"}},
      {"deterministic", {"full_determinism"}},
      {"comm_backend", {"ddp_backend", "backend", "dist_backend"}},
      {"comm_timeout_seconds", {"ddp_timeout"}},
      {"dataset_name", {"dataset", "data", "data_path", "dataset_path", "train_file", "train_data", "train_dataset"}},
      {"dataset_split", {"split", "dataset_train_split", "train_split"}},
      {"eval_dataset_name", {"validation_file", "eval_file", "eval_data", "eval_dataset", "validation_dataset"}},
      {"eval_split", {"dataset_test_split", "validation_split", "test_split"}},
      {"num_samples", {"max_samples", "max_train_samples"}},
      {"max_length",
       {"max_seq_length", "max_seq_len", "seq_len", "seq_length", "sequence_length", "sequence_len", "model_max_length",
        "cutoff_len", "block_size"}},
      {"packing", {"pack", "sample_packing"}},
      {"teacher_model",
       {"teacher", "teacher_model_name_or_path", "teacher_name_or_path", "teacher_path", "teacher_model_path"}},
      {"student_model",
       {"student", "model", "model_name", "model_name_or_path", "model_path", "base_model", "train_model",
        "student_model_name_or_path", "student_path", "student_model_path"}},
      {"use_flash_attention", {"attn_implementation", "flash_attention", "flash_attn", "use_flash_attn"}},
      {"temperature", {"tau", "kd_temperature", "distill_temperature", "distillation_temperature"}},
      {"alpha", {"kd_ratio", "kd_weight", "alpha_kd", "distill_weight", "distillation_weight"}},
      {"num_train_epochs", {"epochs", "epoch", "num_epochs", "n_epochs", "train_epochs", "max_epochs"}},
      {"max_steps", {"steps", "num_steps", "max_train_steps", "num_train_steps", "train_steps", "total_steps"}},
      {"per_device_train_batch_size",
       {"batch_size", "train_batch_size", "micro_batch_size", "per_device_batch_size", "per_gpu_train_batch_size",
        "per_device_eval_batch_size", "eval_batch_size"}},
      {"gradient_accumulation_steps",
       {"gradient_accumulation", "grad_accum", "grad_accum_steps", "grad_accumulation_steps", "accumulation_steps",
        "accumulate_grad_batches"}},
      {"learning_rate", {"lr", "max_lr", "peak_lr"}},
      {"weight_decay", {"wd"}},
      {"warmup_ratio", {"warmup", "warmup_steps", "num_warmup_steps", "lr_warmup_steps"}},
      {"lr_scheduler_type", {"scheduler", "lr_scheduler", "lr_schedule", "lr_decay_style"}},
      {"max_grad_norm", {"clip_grad", "clip_grad_norm", "grad_clip", "gradient_clip_val", "gradient_clipping"}},
      {"gradient_checkpointing",
       {"activation_checkpointing", "use_gradient_checkpointing", "recompute", "checkpoint_activations"}},
      {"zero_stage", {"zero", "deepspeed", "fsdp"}},
      {"bf16", {"dtype", "torch_dtype", "precision", "mixed_precision"}},
      {"save_steps", {"save_interval", "save_every", "checkpoint_interval", "save_strategy"}},
      {"save_total_limit", {"keep_checkpoints", "max_checkpoints"}},
      {"logging_steps", {"log_interval", "log_every", "log_steps", "logging_strategy"}},
      {"eval_steps", {"eval_interval", "eval_every", "eval_strategy", "evaluation_strategy"}},
      {"resume_from_checkpoint", {"resume", "resume_from", "resume_path", "checkpoint"}},
  };
}

}  // namespace

const std::vector<ForeignNames>& AllForeignNames() {
  static const std::vector<ForeignNames>& names = *new std::vector<ForeignNames>(MakeForeignNames());
  return names;
}

const char* OwnNameOf(absl::string_view name) {
  for (const ForeignNames& names : AllForeignNames()) {
    for (const char* foreign : names.foreign) {
      if (name == foreign) return names.own;
    }
  }
  return nullptr;
}

}  // namespace distill
