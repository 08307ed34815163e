#include "examples/llm/llm_task.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "libdistill/data/rows.h"
#include "libdistill/data/token_folder.h"
#include "libdistill/nn/decoder_config.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"
#include "libdistill/store/weights_folder.h"
#include "libdistill/train/trainer.h"
#include "libdistill/train/trainer_state.h"
#include "libdistill/world/own_cores.h"

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

absl::Status CheckRows(const std::string& path, const std::string& split, const RowOptions& rows) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(path));
  DISTILL_ASSIGN_OR_RETURN(const PathKind kind, store->KindOf(path));
  if (kind == PathKind::kFolder && IsTokenFolder(path)) return ReadTokenIndex(path).status();
  if (kind != PathKind::kNothing) return CheckRowFiles(path, split, rows);
  return absl::NotFoundError(absl::StrCat(
      path, ": no such file, or it cannot be read; data are files, folders, s3:// or data sets of the hub ",
      "(org/name)"));
}

// One for each data set, or none.
absl::StatusOr<std::vector<double>> WeightsOf(const LlmOptions& options) {
  std::vector<double> weights;
  for (absl::string_view part : absl::StrSplit(options.dataset_weights, ',', absl::SkipWhitespace())) {
    part = absl::StripAsciiWhitespace(part);
    if (double& weight = weights.emplace_back(); !absl::SimpleAtod(part, &weight) || !(weight > 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("dataset_weights: '", part, "' is no number above 0: give a weight for each data set"));
    }
  }
  const size_t names = DatasetNames(options).size();
  if (weights.empty() || weights.size() == names) return weights;
  return absl::InvalidArgumentError(absl::StrCat("dataset_weights: there are ", weights.size(), " for ", names,
                                                 " data sets of dataset_name: give one for each, or none"));
}

// Before any data are read, which may take minutes. Each error begins with its option.
absl::Status CheckPaths(const LlmOptions& options) {
  DISTILL_RETURN_IF_ERROR(Annotate(CheckModel(options.teacher_model, /*needs_weights=*/true), "teacher_model"));
  DISTILL_RETURN_IF_ERROR(Annotate(CheckModel(options.student_model, /*needs_weights=*/false), "student_model"));
  for (const std::string& name : DatasetNames(options)) {
    DISTILL_RETURN_IF_ERROR(Annotate(CheckRows(name, options.dataset_split, options.rows), "dataset_name"));
  }
  DISTILL_RETURN_IF_ERROR(WeightsOf(options).status());
  if (options.eval_dataset_name.empty()) return absl::OkStatus();
  return Annotate(CheckRows(options.eval_dataset_name, options.eval_split, options.rows), "eval_dataset_name");
}

// A split chooses among the files of a folder. The default is accepted beside a file too: stored configs have it.
absl::Status CheckSplit(const char* split_name, const std::string& split, const std::string& otherwise,
                        const char* path_name, const std::string& path) {
  if (split == otherwise || !FileExists(path)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(split_name, " is '", split, "', but ", path_name, " is the file ",
                                                 path, ", which has no splits: leave ", split_name,
                                                 " out, or name the folder that holds one file a split"));
}

// Before any rank can have begun to tokenize, and before a run leaves each rank its own cores.
const absl::Time kProgramStart = absl::Now();
const std::vector<int> kCoresAtStart = AllowedCores();

// While it lives, this thread and those that it starts may use all that the launcher left to this rank.
class AllCores {
 public:
  AllCores() : own_(AllowedCores()) { Bind(kCoresAtStart); }
  ~AllCores() { Bind(own_); }
  AllCores(const AllCores&) = delete;
  AllCores& operator=(const AllCores&) = delete;

 private:
  static void Bind(const std::vector<int>& cores) {
    if (!cores.empty()) BindThread(cores).IgnoreError();  // it is slower then, and nothing else
  }
  const std::vector<int> own_;
};

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
  return cache.folder.empty() ? at::get_num_threads() : std::max<int64_t>(1, std::ssize(kCoresAtStart));
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
  std::optional<AllCores> all_cores;
  if (!how.cache.folder.empty()) all_cores.emplace();
  DISTILL_ASSIGN_OR_RETURN(ChatDataset data, LoadChatDataset(path, tokenizer, chat, how));
  LogInfo(data.summary);
  return data;
}

// Training data of all sources, and what of them is held out.
absl::Status LoadTraining(const LlmOptions& options, LlmText& text) {
  std::vector<std::shared_ptr<const Dataset>> train, held_out;
  std::vector<std::string> summaries;
  const std::vector<std::string> names = DatasetNames(options);
  for (const std::string& name : names) {
    DISTILL_ASSIGN_OR_RETURN(
        ChatDataset data,
        LoadData(text.tokenizer, text.chat, name, HowToLoad(options, options.dataset_split, options.num_samples)));
    summaries.push_back(names.size() == 1 ? data.summary : absl::StrCat(name, ": ", data.summary));
    if (options.validation_split == 0) {
      train.push_back(std::move(data.tokens));
      continue;
    }
    SplitDataset split = SplitByIds(std::move(data.tokens), options.validation_split);
    train.push_back(std::move(split.first));
    if (split.second->size() > 0) held_out.push_back(std::move(split.second));
  }
  MixOptions mix = options.mix;
  DISTILL_ASSIGN_OR_RETURN(mix.weights, WeightsOf(options));
  text.train.summary = absl::StrJoin(summaries, "; ");
  if (train.size() == 1 && options.validation_split == 0) {
    text.train.tokens = std::const_pointer_cast<Dataset>(train[0]);
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<Dataset>> mixed = MixSources(std::move(train), mix);
  if (!mixed.ok()) return Annotate(mixed.status(), "dataset_name");
  text.train.tokens = *std::move(mixed);
  if (options.validation_split == 0) return absl::OkStatus();
  if (held_out.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("validation_split: of so few samples ", options.validation_split, " holds out none: raise it"));
  }
  text.evaluation.emplace();
  DISTILL_ASSIGN_OR_RETURN(text.evaluation->tokens, MixSources(std::move(held_out), {}));
  LogInfo(absl::StrCat("validation_split: ", text.evaluation->tokens->size(), " samples are held out, ",
                       text.train.tokens->size(), " are trained"));
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

std::vector<std::string> DatasetNames(const LlmOptions& options) {
  std::vector<std::string> names;
  for (const absl::string_view name : absl::StrSplit(options.dataset_name, ',', absl::SkipWhitespace())) {
    names.emplace_back(absl::StripAsciiWhitespace(name));
  }
  // A name may hold a comma itself.
  return names.size() > 1 && (FileExists(options.dataset_name) || FolderExists(options.dataset_name))
             ? std::vector<std::string>{options.dataset_name}
             : names;
}

absl::StatusOr<LlmText> LoadText(const LlmOptions& options) {
  const LlmOptions defaults;
  for (const std::string& name : DatasetNames(options)) {
    DISTILL_RETURN_IF_ERROR(
        CheckSplit("dataset_split", options.dataset_split, defaults.dataset_split, "dataset_name", name));
  }
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

absl::StatusOr<LlmModels> LoadModels(const LlmOptions& options, const RunContext& run) {
  LlmModels models;
  DISTILL_ASSIGN_OR_RETURN(models.student_has_weights, HasWeights(options.student_model));
  DISTILL_ASSIGN_OR_RETURN(models.student, LoadStudent(options, run, models.student_has_weights));
  if (options.teacher_model.empty()) return models;
  const LoadOptions load = OptionsOf(WorkingType(options.trainer, run.device()), run.device(),
                                     options.shard_teacher && run.world_size() > 1);
  DISTILL_ASSIGN_OR_RETURN(models.teacher, LoadDecoder(options.teacher_model, load));
  return models;
}

}  // namespace distill
