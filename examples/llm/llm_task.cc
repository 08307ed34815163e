#include "examples/llm/llm_task.h"

#include "absl/strings/str_cat.h"
#include "libdistill/store/files.h"
#include "libdistill/train/trainer_state.h"

namespace distill {
namespace {

bool HasTokenizer(const std::string& folder) {
  return !folder.empty() && FileExists(JoinPath(folder, "tokenizer.json"));
}

absl::StatusOr<Tokenizer> LoadTokenizer(const LlmConfig& config, const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Load(folder));
  if (folder == config.student_model && HasTokenizer(config.teacher_model)) {
    DISTILL_ASSIGN_OR_RETURN(const Tokenizer teachers, Tokenizer::Load(config.teacher_model));
    DISTILL_RETURN_IF_ERROR(Annotate(RequireSameTokenizer(teachers, tokenizer),
                                     absl::StrCat(config.teacher_model, " and ", config.student_model)));
  }
  return tokenizer;
}

absl::Status CheckModelFolders(const LlmConfig& config) {
  if (!config.teacher_model.empty()) {
    DISTILL_RETURN_IF_ERROR(Annotate(CheckModelFolder(config.teacher_model), "teacher_model"));
  }
  if (config.student_model.empty()) return absl::OkStatus();
  return Annotate(CheckModelFolder(config.student_model), "student_model");
}

// A split chooses among the files of a folder. The default says nothing: resolved configs hold it beside a file, too.
absl::Status CheckSplit(const char* split_name, const std::string& split, const std::string& otherwise,
                        const char* path_name, const std::string& path) {
  if (split == otherwise || !FileExists(path)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(split_name, " is '", split, "', but ", path_name, " is the file ",
                                                 path, ", which has no splits: leave ", split_name,
                                                 " out, or name the folder that holds one file a split"));
}

absl::StatusOr<ChatDataset> LoadData(const LlmConfig& config, const Tokenizer& tokenizer, const std::string& path,
                                     const ChatDatasetOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Create(config.chat_template, tokenizer));
  DISTILL_ASSIGN_OR_RETURN(ChatDataset data, LoadChatDataset(path, tokenizer, chat, options));
  LogInfo(data.summary);
  return data;
}

ShardOptions ShardOptionsOf(const LlmConfig& config, const Tokenizer& tokenizer) {
  return {.seed = config.seed,
          .rows_per_rank = config.per_device_train_batch_size,
          .accumulation_steps = config.gradient_accumulation_steps,
          .packing = config.packing,
          .max_length = config.max_length,
          .pad_id = tokenizer.TokenToId(tokenizer.pad_token()).value_or(tokenizer.eos_id().value_or(0))};
}

// What is to be shared out over ranks may fit neither on a device nor in a rank's memory.
LoadOptions OptionsOf(torch::Dtype dtype, c10::Device device, bool is_shared_out) {
  return {.dtype = dtype, .device = is_shared_out ? c10::Device(torch::kCPU) : device, .blocks_later = is_shared_out};
}

absl::StatusOr<std::shared_ptr<Decoder>> LoadStudent(const LlmConfig& config, const RunContext& run) {
  const LoadOptions options = OptionsOf(torch::kFloat32, run.device(), config.zero_stage == 3 && run.world_size() > 1);
  const std::string& folder = config.student_model;
  DISTILL_ASSIGN_OR_RETURN(const bool has_weights, HasWeights(folder));
  if (has_weights) return LoadDecoder(folder, options);
  const bool resumes =
      WillResume({.output_dir = config.output_dir, .resume_from_checkpoint = config.resume_from_checkpoint});
  LogInfo(absl::StrCat(folder, " has no weights: ",
                       resumes ? "the student's are those of the checkpoint"
                               : absl::StrCat("a new student starts from random ones, drawn with seed ", config.seed)));
  return CreateDecoder(folder, config.seed, options);
}

}  // namespace

torch::Dtype WorkingType(const LlmConfig& config) {
  if (config.fp16) return torch::kFloat16;
  return config.bf16 ? torch::kBFloat16 : torch::kFloat32;
}

absl::StatusOr<LlmText> LoadText(const LlmConfig& config) {
  DISTILL_RETURN_IF_ERROR(CheckModelFolders(config));
  const LlmConfig defaults;
  DISTILL_RETURN_IF_ERROR(
      CheckSplit("dataset_split", config.dataset_split, defaults.dataset_split, "dataset_name", config.dataset_name));
  DISTILL_RETURN_IF_ERROR(
      CheckSplit("eval_split", config.eval_split, defaults.eval_split, "eval_dataset_name", config.eval_dataset_name));
  const std::string folder = !HasTokenizer(config.student_model) && HasTokenizer(config.teacher_model)
                                 ? config.teacher_model
                                 : config.student_model;
  DISTILL_ASSIGN_OR_RETURN(Tokenizer tokenizer, LoadTokenizer(config, folder));
  DISTILL_ASSIGN_OR_RETURN(
      ChatDataset train,
      LoadData(config, tokenizer, config.dataset_name,
               {.split = config.dataset_split, .num_samples = config.num_samples, .max_length = config.max_length}));
  LlmText text{std::move(tokenizer), std::move(train), std::nullopt};
  if (!config.eval_dataset_name.empty()) {
    DISTILL_ASSIGN_OR_RETURN(text.evaluation, LoadData(config, text.tokenizer, config.eval_dataset_name,
                                                       {.split = config.eval_split, .max_length = config.max_length}));
  }
  return text;
}

absl::StatusOr<DataSharder> ShardTraining(const LlmConfig& config, const LlmText& text, const World& world) {
  return DataSharder::Create(text.train.tokens, world.rank, world.world_size, ShardOptionsOf(config, text.tokenizer));
}

absl::StatusOr<DataSharder> ShardEvaluation(const LlmConfig& config, const LlmText& text, const World& world) {
  ShardOptions options = ShardOptionsOf(config, text.tokenizer);
  options.accumulation_steps = 1;
  options.shuffle = false;
  return DataSharder::Create(text.evaluation->tokens, world.rank, world.world_size, options);
}

absl::StatusOr<LlmModels> LoadModels(const LlmConfig& config, const RunContext& run) {
  LlmModels models;
  DISTILL_ASSIGN_OR_RETURN(models.student, LoadStudent(config, run));
  if (config.teacher_model.empty()) return models;
  const LoadOptions options =
      OptionsOf(WorkingType(config), run.device(), config.shard_teacher && run.world_size() > 1);
  DISTILL_ASSIGN_OR_RETURN(models.teacher, LoadDecoder(config.teacher_model, options));
  return models;
}

}  // namespace distill
