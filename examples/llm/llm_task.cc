#include "examples/llm/llm_task.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/data/rows.h"
#include "libdistill/data/token_folder.h"
#include "libdistill/nn/decoder_config.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"
#include "libdistill/store/weights_folder.h"
#include "libdistill/train/trainer.h"
#include "libdistill/train/trainer_state.h"

namespace distill {
namespace {

bool HasTokenizer(const std::string& folder) { return !folder.empty() && Tokenizer::IsIn(folder); }

absl::StatusOr<Tokenizer> LoadTokenizer(const LlmOptions& options, const std::string& folder) {
  absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Load(folder);
  if (!tokenizer.ok()) {
    return Annotate(tokenizer.status(), folder == options.student_model ? "student_model" : "teacher_model");
  }
  if (folder == options.student_model && HasTokenizer(options.teacher_model)) {
    const absl::StatusOr<Tokenizer> teachers = Tokenizer::Load(options.teacher_model);
    if (!teachers.ok()) return Annotate(teachers.status(), "teacher_model");
    DISTILL_RETURN_IF_ERROR(Annotate(RequireSameTokenizer(*teachers, *tokenizer),
                                     absl::StrCat(options.teacher_model, " and ", options.student_model)));
  }
  return tokenizer;
}

// What can be known of a model without memory for it: its family and shape, and that its weights can be read.
absl::Status CheckModel(const std::string& folder, bool needs_weights) {
  if (folder.empty()) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(CheckModelFolder(folder));
  DISTILL_RETURN_IF_ERROR(ReadDecoderConfig(folder).status());
  DISTILL_ASSIGN_OR_RETURN(const bool has_weights, HasWeights(folder));
  return has_weights || needs_weights ? WeightsFolder::Open(folder).status() : absl::OkStatus();
}

absl::Status CheckRows(const std::string& path, const std::string& split) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(path));
  DISTILL_ASSIGN_OR_RETURN(const PathKind kind, store->KindOf(path));
  if (kind == PathKind::kFolder && IsTokenFolder(path)) return ReadTokenIndex(path).status();
  if (kind != PathKind::kNothing) return CheckRowFiles(path, split);
  return absl::NotFoundError(
      absl::StrCat(path, ": no such file, or it cannot be read; data are local files or s3://, nothing is ",
                   "downloaded (hf download NAME --repo-type dataset --local-dir FOLDER)"));
}

// Before any data are read, which may take minutes. Each error begins with its option.
absl::Status CheckPaths(const LlmOptions& options) {
  DISTILL_RETURN_IF_ERROR(Annotate(CheckModel(options.teacher_model, /*needs_weights=*/true), "teacher_model"));
  DISTILL_RETURN_IF_ERROR(Annotate(CheckModel(options.student_model, /*needs_weights=*/false), "student_model"));
  DISTILL_RETURN_IF_ERROR(Annotate(CheckRows(options.dataset_name, options.dataset_split), "dataset_name"));
  if (options.eval_dataset_name.empty()) return absl::OkStatus();
  return Annotate(CheckRows(options.eval_dataset_name, options.eval_split), "eval_dataset_name");
}

// A split chooses among the files of a folder. The default is accepted beside a file too: stored configs have it.
absl::Status CheckSplit(const char* split_name, const std::string& split, const std::string& otherwise,
                        const char* path_name, const std::string& path) {
  if (split == otherwise || !FileExists(path)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(split_name, " is '", split, "', but ", path_name, " is the file ",
                                                 path, ", which has no splits: leave ", split_name,
                                                 " out, or name the folder that holds one file a split"));
}

// Before any rank can have begun to tokenize.
const absl::Time kProgramStart = absl::Now();

// One that was not asked for is no reason to fail.
TokenCache CacheOf(const LlmOptions& options) {
  if (options.cache_dir == "none") return {};
  const bool is_default = options.cache_dir.empty();
  return {.folder = is_default ? DefaultTokenCacheFolder() : options.cache_dir,
          .is_required = !is_default,
          .rebuild_before = options.overwrite_cache ? kProgramStart : absl::InfinitePast()};
}

// Who fills the cache works for all ranks of its host, which wait for it.
int64_t ThreadsOf(const LlmOptions& options, const TokenCache& cache) {
  if (options.preprocessing_num_workers > 0) return options.preprocessing_num_workers;
  return cache.folder.empty() ? at::get_num_threads() : std::max(1U, std::thread::hardware_concurrency());
}

ChatDatasetOptions HowToLoad(const LlmOptions& options, const std::string& split, int64_t num_samples) {
  const TokenCache cache = CacheOf(options);
  return {.split = split,
          .num_samples = num_samples,
          .max_length = options.shard.max_length,
          .train_on = options.train_on,
          .rows = options.rows,
          .num_threads = ThreadsOf(options, cache),
          .keep_conversations = false,
          .cache = cache};
}

absl::StatusOr<ChatDataset> LoadData(const Tokenizer& tokenizer, const ChatTemplate& chat, const std::string& path,
                                     const ChatDatasetOptions& how) {
  DISTILL_ASSIGN_OR_RETURN(ChatDataset data, LoadChatDataset(path, tokenizer, chat, how));
  LogInfo(data.summary);
  return data;
}

int32_t PadIdOf(const Tokenizer& tokenizer) {
  return tokenizer.TokenToId(tokenizer.pad_token()).value_or(tokenizer.eos_id().value_or(0));
}

// A model that is to be sharded may fit neither on a device nor in a rank's memory.
LoadOptions OptionsOf(torch::Dtype dtype, c10::Device device, bool is_sharded) {
  return {.dtype = dtype, .device = is_sharded ? c10::Device(torch::kCPU) : device, .blocks_later = is_sharded};
}

absl::StatusOr<std::shared_ptr<Decoder>> LoadStudent(const LlmOptions& options, const RunContext& run) {
  const LoadOptions load =
      OptionsOf(torch::kFloat32, run.device(), options.trainer.zero_stage == 3 && run.world_size() > 1);
  const std::string& folder = options.student_model;
  DISTILL_ASSIGN_OR_RETURN(const bool has_weights, HasWeights(folder));
  if (has_weights) return LoadDecoder(folder, load);
  const bool resumes = WillResume(options.trainer);
  LogInfo(absl::StrCat(
      folder, " has no weights: ",
      resumes ? "the student's are those of the checkpoint"
              : absl::StrCat("a new student starts from random ones, drawn with seed ", options.trainer.seed)));
  return CreateDecoder(folder, options.trainer.seed, load);
}

}  // namespace

absl::StatusOr<LlmText> LoadText(const LlmOptions& options) {
  const LlmOptions defaults;
  DISTILL_RETURN_IF_ERROR(
      CheckSplit("dataset_split", options.dataset_split, defaults.dataset_split, "dataset_name", options.dataset_name));
  DISTILL_RETURN_IF_ERROR(CheckSplit("eval_split", options.eval_split, defaults.eval_split, "eval_dataset_name",
                                     options.eval_dataset_name));
  DISTILL_RETURN_IF_ERROR(CheckPaths(options));
  const std::string folder = !HasTokenizer(options.student_model) && HasTokenizer(options.teacher_model)
                                 ? options.teacher_model
                                 : options.student_model;
  DISTILL_ASSIGN_OR_RETURN(Tokenizer tokenizer, LoadTokenizer(options, folder));
  absl::StatusOr<ChatTemplate> chat = ChatTemplate::Create(options.chat_template, tokenizer);
  if (!chat.ok()) return Annotate(chat.status(), "chat_template");
  LogInfo(absl::StrCat("chat template: ", chat->name()));
  DISTILL_ASSIGN_OR_RETURN(ChatDataset train, LoadData(tokenizer, *chat, options.dataset_name,
                                                       HowToLoad(options, options.dataset_split, options.num_samples)));
  LlmText text{folder, std::move(tokenizer), *std::move(chat), std::move(train), std::nullopt};
  if (!options.eval_dataset_name.empty()) {
    DISTILL_ASSIGN_OR_RETURN(text.evaluation, LoadData(text.tokenizer, text.chat, options.eval_dataset_name,
                                                       HowToLoad(options, options.eval_split, /*num_samples=*/0)));
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

absl::StatusOr<LlmModels> LoadModels(const LlmOptions& options, const RunContext& run) {
  LlmModels models;
  DISTILL_ASSIGN_OR_RETURN(models.student, LoadStudent(options, run));
  if (options.teacher_model.empty()) return models;
  const LoadOptions load = OptionsOf(WorkingType(options.trainer, run.device()), run.device(),
                                     options.shard_teacher && run.world_size() > 1);
  DISTILL_ASSIGN_OR_RETURN(models.teacher, LoadDecoder(options.teacher_model, load));
  return models;
}

}  // namespace distill
