#include "examples/llm/llm_task.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "examples/recipe/shared_tokenizer.h"
#include "libdistill/nn/adapters.h"
#include "libdistill/nn/decoder_config.h"
#include "libdistill/nn/flash_attention.h"
#include "libdistill/nn/gguf_config.h"
#include "libdistill/nn/quantised_weights.h"
#include "libdistill/store/files.h"
#include "libdistill/store/yaml_list.h"
#include "libdistill/task/layer_map.h"
#include "libdistill/task/unfreeze.h"
#include "libdistill/train/trainer.h"
#include "libdistill/train/trainer_state.h"

namespace distill {
namespace {

absl::StatusOr<Tokenizer> LoadTokenizer(const LlmOptions& options, const std::string& folder) {
  absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Load(folder);
  if (!tokenizer.ok()) {
    return Annotate(tokenizer.status(), folder == options.student_model ? "student_model" : "teacher_model");
  }
  if (folder == options.student_model && !options.teacher_model.empty() && Tokenizer::IsIn(options.teacher_model)) {
    DISTILL_RETURN_IF_ERROR(RequireTokenizerOf(options.teacher_model, options.student_model, *tokenizer));
  }
  return tokenizer;
}

// What can be known of a model without memory for it: its family and shape, and that its weights can be read.
absl::Status CheckModel(const LlmOptions& options, const std::string& folder, bool is_teacher) {
  if (folder.empty()) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(CheckModelFolder(folder));
  DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config, ReadDecoderConfig(folder));
  if (options.use_flash_attention) DISTILL_RETURN_IF_ERROR(CheckFlashAttention(config, options.shard.max_length));
  if (!is_teacher) DISTILL_RETURN_IF_ERROR(CheckStudent(folder, config));
  DISTILL_RETURN_IF_ERROR(CheckGgufTokenizer(folder));
  DISTILL_ASSIGN_OR_RETURN(const bool has_weights, HasWeights(folder));
  return has_weights || is_teacher ? OpenWeights(folder, {.dequantise = is_teacher}).status() : absl::OkStatus();
}

// Before there are weights to wait for.
absl::Status CheckTrainedPart(const LlmOptions& options) {
  if (options.student_model.empty()) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config, ReadDecoderConfig(options.student_model));
  return ChoosePart(options, *DecoderShapes(config, torch::kFloat32));
}

// Of a batch that is shown without one of them there is nothing to check.
absl::Status CheckLayerMap(const LlmOptions& options) {
  if (options.loss.hidden_weight == 0 || options.student_model.empty() || options.teacher_model.empty()) {
    return absl::OkStatus();
  }
  DISTILL_ASSIGN_OR_RETURN(const DecoderConfig student, ReadDecoderConfig(options.student_model));
  DISTILL_ASSIGN_OR_RETURN(const DecoderConfig teacher, ReadDecoderConfig(options.teacher_model));
  return ParseLayerMap(options.loss.layer_map, student.num_hidden_layers, teacher.num_hidden_layers).status();
}

// Before any data are read, which may take minutes. Each error begins with its option.
absl::Status CheckPaths(const LlmOptions& options) {
  DISTILL_RETURN_IF_ERROR(Annotate(CheckModel(options, options.teacher_model, /*is_teacher=*/true), "teacher_model"));
  DISTILL_RETURN_IF_ERROR(Annotate(CheckModel(options, options.student_model, /*is_teacher=*/false), "student_model"));
  DISTILL_RETURN_IF_ERROR(CheckTrainedPart(options));
  DISTILL_RETURN_IF_ERROR(CheckLayerMap(options));
  DISTILL_RETURN_IF_ERROR(CheckSourceFiles(options.sources, options.rows));
  if (options.eval_dataset_name.empty()) return absl::OkStatus();
  return Annotate(CheckRows(options.eval_dataset_name, options.eval_split, options.rows), "eval_dataset_name");
}

ChatDatasetOptions HowToLoad(const LlmOptions& options, const std::string& split, int64_t num_samples) {
  return {.split = split,
          .num_samples = num_samples,
          .max_length = options.shard.max_length,
          .train_on = options.train_on,
          .rows = options.rows,
          .num_threads = ThreadsOf(options.tokenizing),
          .keep_conversations = false,
          .cache = CacheOf(options.tokenizing)};
}

absl::StatusOr<ChatDataset> LoadData(const Tokenizer& tokenizer, const ChatTemplate& chat, const std::string& path,
                                     const ChatDatasetOptions& how) {
  DISTILL_ASSIGN_OR_RETURN(ChatDataset data, LoadChatDataset(path, tokenizer, chat, how));
  LogInfo(data.summary);
  return data;
}

// Training data of all sources, and what of them is held out.
absl::Status LoadTraining(const LlmOptions& options, LlmText& text) {
  std::vector<std::shared_ptr<const Dataset>> sources;
  std::vector<std::string> summaries;
  const std::vector<std::string> names = SourceNames(options.sources);
  const ChatDatasetOptions how = HowToLoad(options, options.sources.dataset_split, options.sources.max_samples);
  for (const std::string& name : names) {
    DISTILL_ASSIGN_OR_RETURN(ChatDataset data, LoadData(text.tokenizer, text.chat, name, how));
    summaries.push_back(names.size() == 1 ? data.summary : absl::StrCat(name, ": ", data.summary));
    sources.push_back(std::move(data.tokens));
  }
  text.train.summary = absl::StrJoin(summaries, "; ");
  DISTILL_ASSIGN_OR_RETURN(JoinedSources joined, JoinSources(options.sources, std::move(sources)));
  text.train.tokens = std::move(joined.train);
  if (joined.held_out != nullptr) text.evaluation.emplace().tokens = std::move(joined.held_out);
  return absl::OkStatus();
}

int32_t PadIdOf(const Tokenizer& tokenizer) {
  return tokenizer.TokenToId(tokenizer.pad_token()).value_or(tokenizer.eos_id().value_or(0));
}

// A model that is to be sharded may fit neither on a device nor in a rank's memory.
LoadOptions OptionsOf(torch::Dtype dtype, c10::Device device, bool is_sharded) {
  return {.dtype = dtype, .device = is_sharded ? c10::Device(torch::kCPU) : device, .blocks_later = is_sharded};
}

absl::StatusOr<std::shared_ptr<Decoder>> LoadStudent(const LlmOptions& options, const RunContext& run,
                                                     bool has_weights) {
  const LoadOptions load =
      OptionsOf(torch::kFloat32, run.device(), options.trainer.zero_stage == 3 && run.world_size() > 1);
  const std::string& folder = options.student_model;
  if (has_weights) return LoadDecoder(folder, load);
  const bool resumes = WillResume(options.trainer);
  LogInfo(absl::StrCat(
      folder, " has no weights: ",
      resumes ? "the student's are those of the checkpoint"
              : absl::StrCat("a new student starts from random ones, drawn with seed ", options.trainer.seed)));
  return CreateDecoder(folder, options.trainer.seed, load);
}

}  // namespace

// A mixture's router needs a loss of its own, and an expert without tokens has no gradients to send.
absl::Status CheckStudent(const std::string& folder, const DecoderConfig& config) {
  if (config.experts.count == 0) return CheckTrainable(folder);
  return absl::InvalidArgumentError(absl::StrCat(folder, " is a mixture of ", config.experts.count, " experts (",
                                                 config.model_type,
                                                 "), which can be a teacher here and no student: take a dense model"));
}

absl::StatusOr<LlmText> LoadText(const LlmOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckSplits(options.sources));
  DISTILL_RETURN_IF_ERROR(CheckSplit("eval_split", options.eval_split, LlmOptions().eval_split, "eval_dataset_name",
                                     options.eval_dataset_name));
  DISTILL_RETURN_IF_ERROR(CheckPaths(options));
  const std::string folder = TokenizerFolderOf(options.student_model, options.teacher_model);
  DISTILL_ASSIGN_OR_RETURN(Tokenizer tokenizer, LoadTokenizer(options, folder));
  absl::StatusOr<ChatTemplate> chat = ChatTemplate::Create(options.chat_template, tokenizer);
  if (!chat.ok()) return Annotate(chat.status(), "chat_template");
  LogInfo(absl::StrCat("chat template: ", chat->name()));
  const TokenizingCores cores(options.tokenizing);
  LlmText text{folder, std::move(tokenizer), *std::move(chat), {}, std::nullopt};
  DISTILL_RETURN_IF_ERROR(LoadTraining(options, text));
  if (!options.eval_dataset_name.empty()) {
    DISTILL_ASSIGN_OR_RETURN(text.evaluation,
                             LoadData(text.tokenizer, text.chat, options.eval_dataset_name,
                                      HowToLoad(options, options.eval_split, options.max_eval_samples)));
  }
  return text;
}

absl::StatusOr<TokenBatches> ShardTraining(const LlmOptions& options, const LlmText& text, const World& world) {
  return TokenBatches::Create(text.train.tokens, world.rank, world.world_size, options.shard, PadIdOf(text.tokenizer));
}

absl::StatusOr<TokenBatches> ShardEvaluation(const LlmOptions& options, const LlmText& text, const World& world) {
  return TokenBatches::Create(text.evaluation->tokens, world.rank, world.world_size, ForEvaluation(options.shard),
                              PadIdOf(text.tokenizer));
}

absl::Status ChoosePart(const LlmOptions& options, Decoder& student) {
  if (options.use_peft) {
    AdapterOptions adapters = options.adapters;
    adapters.seed = options.trainer.seed;
    // As it was given: a name of the hub is a folder by now.
    adapters.base_model = options.student_model;
    for (const auto& [name, value] : options.kept) {
      if (name == "student_model") adapters.base_model = value;
    }
    return Annotate(AddAdapters(adapters, student), "lora_target_modules");
  }
  if (options.layers_to_unfreeze.empty()) return absl::OkStatus();
  const auto patterns = ReadYamlList(options.layers_to_unfreeze, kUnfrozenParameters);
  if (!patterns.ok()) return Annotate(patterns.status(), "layers_to_unfreeze");
  return Annotate(UnfreezeOnly(*patterns, student), "layers_to_unfreeze");
}

absl::StatusOr<LlmModels> LoadModels(const LlmOptions& options, const RunContext& run) {
  LlmModels models;
  DISTILL_ASSIGN_OR_RETURN(models.student_has_weights, HasWeights(options.student_model));
  if (options.use_peft && !models.student_has_weights) {
    return absl::InvalidArgumentError(absl::StrCat("use_peft: ", options.student_model,
                                                   " has no weights, and adapters teach nothing to random ones"));
  }
  DISTILL_ASSIGN_OR_RETURN(models.student, LoadStudent(options, run, models.student_has_weights));
  DISTILL_RETURN_IF_ERROR(ChoosePart(options, *models.student));
  if (options.teacher_model.empty()) return models;
  LoadOptions load = OptionsOf(WorkingType(options.trainer, run.device()), run.device(),
                               options.shard_teacher && run.world_size() > 1);
  load.dequantise = true;
  DISTILL_ASSIGN_OR_RETURN(models.teacher, LoadDecoder(options.teacher_model, load));
  return models;
}

}  // namespace distill
