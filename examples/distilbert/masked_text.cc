#include "examples/distilbert/masked_text.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "examples/distilbert/demo_text.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/text_pieces.h"
#include "libdistill/nn/encoder_config.h"

namespace distill {
namespace {

constexpr int64_t kDemoTexts = 1000;

absl::Status CheckLength(const char* option, const std::string& folder, int64_t max_length) {
  if (folder.empty()) return absl::OkStatus();
  const absl::StatusOr<EncoderConfig> config = ReadEncoderConfig(folder);
  if (!config.ok()) return Annotate(config.status(), option);
  if (max_length <= config->most_tokens()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("max_length is ", max_length, ", but ", option, " ", folder,
                                                 " has positions for ", config->most_tokens(), ": lower it"));
}

TextPiecesOptions HowToRead(const DistilBertOptions& options) {
  return {.split = options.sources.dataset_split,
          .column = options.text_column,
          .num_texts = options.sources.max_samples,
          .max_length = options.shard.max_length,
          .rows = options.rows,
          .num_threads = ThreadsOf(options.tokenizing),
          .cache = CacheOf(options.tokenizing)};
}

absl::StatusOr<std::vector<TextPieces>> LoadPieces(const DistilBertOptions& options, const Tokenizer& tokenizer) {
  std::vector<TextPieces> all;
  if (options.use_demo_data) {
    const int64_t count = options.sources.max_samples > 0 ? options.sources.max_samples : kDemoTexts;
    DISTILL_ASSIGN_OR_RETURN(
        TextPieces demo, CutIntoPieces(DemoTexts(options.trainer.seed, count), tokenizer, options.shard.max_length));
    all.push_back(std::move(demo));
    return all;
  }
  const TokenizingCores cores(options.tokenizing);
  for (const std::string& name : SourceNames(options.sources)) {
    absl::StatusOr<TextPieces> pieces = LoadTextPieces(name, tokenizer, HowToRead(options));
    if (!pieces.ok()) return Annotate(pieces.status(), "dataset_name");
    LogInfo(absl::StrCat(name, ": ", pieces->summary));
    all.push_back(*std::move(pieces));
  }
  return all;
}

absl::StatusOr<TokenBatches> Shard(const MaskedText& text, const std::shared_ptr<Dataset>& pieces,
                                   const ShardOptions& shard, const World& world) {
  const int32_t pad_id = text.tokenizer.TokenToId(text.tokenizer.pad_token()).value_or(0);
  return TokenBatches::CreateMasked(pieces, world.rank, world.world_size, shard, text.masking, pad_id);
}

}  // namespace

std::pair<std::string, const char*> TokenizerFolder(const DistilBertOptions& options) {
  const std::string& student = options.student_checkpoint;
  const bool is_students = !student.empty() && (options.teacher_model.empty() || Tokenizer::IsIn(student));
  return is_students ? std::pair(student, "student_checkpoint") : std::pair(options.teacher_model, "teacher_model");
}

absl::Status CheckLengths(const DistilBertOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckLength("teacher_model", options.teacher_model, options.shard.max_length));
  return CheckLength("student_checkpoint", options.student_checkpoint, options.shard.max_length);
}

absl::StatusOr<MaskedText> LoadMaskedText(const DistilBertOptions& options) {
  if (!options.use_demo_data) {
    DISTILL_RETURN_IF_ERROR(CheckSplits(options.sources));
    DISTILL_RETURN_IF_ERROR(CheckSourceFiles(options.sources, options.rows));
  }
  DISTILL_RETURN_IF_ERROR(CheckLengths(options));
  const auto [folder, option] = TokenizerFolder(options);
  absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Load(folder);
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), option);
  absl::StatusOr<MlmMasking> masking = MlmMasking::Create(*tokenizer, options.masking);
  if (!masking.ok()) return Annotate(masking.status(), absl::StrCat(option, " ", folder));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<TextPieces> pieces, LoadPieces(options, *tokenizer));
  std::vector<std::shared_ptr<const Dataset>> sources;
  std::vector<std::string> summaries;
  for (const TextPieces& each : pieces) {
    sources.push_back(each.tokens);
    summaries.push_back(each.summary);
  }
  DISTILL_ASSIGN_OR_RETURN(JoinedSources joined, JoinSources(options.sources, std::move(sources)));
  MaskedText text{*std::move(tokenizer), *std::move(masking), std::move(joined.train), std::move(joined.held_out),
                  absl::StrJoin(summaries, "; ")};
  if (text.held_out != nullptr && options.max_eval_samples > 0) {
    text.held_out = SpreadSamples(text.held_out, options.max_eval_samples);
  }
  return text;
}

absl::StatusOr<TokenBatches> ShardTraining(const DistilBertOptions& options, const MaskedText& text,
                                           const World& world) {
  return Shard(text, text.train, options.shard, world);
}

absl::StatusOr<TokenBatches> ShardHeldOut(const DistilBertOptions& options, const MaskedText& text,
                                          const World& world) {
  return Shard(text, text.held_out, ForEvaluation(options.shard), world);
}

}  // namespace distill
