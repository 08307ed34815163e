// The settings of a distillation run, by the names that users of DistillKit and transformers know.
//
//   DISTILL_ASSIGN_OR_RETURN(CommandLine command, ParseCommandLine(argc, argv));   // config/command_line.h
//   command.config.learning_rate
//
// option_table.cc lists every setting with its help and its limits; files and the command line are read by that table.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace distill {

struct LlmConfig {
  std::string project_name = "distil-logits";
  std::string output_dir;
  bool overwrite_output_dir = false;
  uint64_t seed = 42;

  std::string dataset_name;
  std::string dataset_split = "train";
  int64_t num_samples = 0;
  std::string eval_dataset_name;
  std::string eval_split = "test";
  int64_t max_length = 4096;
  std::string chat_template;
  bool packing = false;

  std::string teacher_model;
  std::string student_model;
  bool use_flash_attention = false;
  double temperature = 2.0;
  double alpha = 0.5;
  double beta = 0.0;
  std::string layers_to_unfreeze;

  double num_train_epochs = 3;
  int64_t max_steps = -1;
  int64_t per_device_train_batch_size = 1;
  int64_t gradient_accumulation_steps = 8;
  double learning_rate = 2e-5;
  double weight_decay = 0.05;
  double warmup_ratio = 0.1;
  std::string lr_scheduler_type = "cosine";
  double max_grad_norm = 1.0;
  std::string gradient_compression = "none";
  int64_t zero_stage = 0;
  bool shard_teacher = false;
  bool gradient_checkpointing = false;
  bool fp16 = false;
  bool bf16 = false;

  int64_t save_steps = 1000;
  int64_t save_total_limit = 0;
  int64_t logging_steps = 1;
  int64_t eval_steps = 0;
  std::string resume_from_checkpoint;

  std::string device = "auto";
  bool deterministic = false;
  bool pin_threads = true;
  std::string comm_backend = "auto";
  std::string comm_algorithm = "auto";
  std::string comm_tuning_file;
  double comm_timeout_seconds = 300;
  double heartbeat_timeout_seconds = 15;
};

// Every setting in the order of the table, as text that reads back to the same value.
using ConfigFields = std::vector<std::pair<std::string, std::string>>;
ConfigFields ResolvedFields(const LlmConfig& config);
// "name: value" a line.
std::string FieldsToYaml(const ConfigFields& fields);

// Sets what the file holds: YAML or JSON, flat keys; null leaves the default. InvalidArgument names file, line and key:
// an unknown key (with the nearest known one), a key given twice, a value of the wrong kind or out of range.
// NotFound: no such file.
[[nodiscard]] absl::Status ReadConfigFile(const std::string& path, LlmConfig& config);

// Which models there are: student_model, and a teacher_model unless alpha is 0. InvalidArgument names the setting.
[[nodiscard]] absl::Status CheckModels(const LlmConfig& config);

// What no single setting can tell: what is required, and what excludes one another. InvalidArgument names the settings.
[[nodiscard]] absl::Status CheckTogether(const LlmConfig& config);

}  // namespace distill
