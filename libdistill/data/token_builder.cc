#include "libdistill/data/token_builder.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/chat_samples.h"
#include "libdistill/data/row_files.h"
#include "libdistill/data/token_shard.h"
#include "libdistill/store/content_hash.h"
#include "libdistill/store/file_writer.h"
#include "libdistill/store/files.h"
#include "libdistill/store/readable_file.h"

namespace distill {
namespace {

// To be raised whenever the same rows give other tokens than before.
constexpr int kEncodingVersion = 1;
// Written before the first shard.
constexpr char kMadeOfName[] = "made_of.txt";

// Marked, so that who can do without the folder knows that the data are not to blame.
absl::Status NotWritten(absl::Status error) {
  if (!error.ok()) error.SetPayload(kTokensNotWritten, absl::Cord());
  return error;
}

// Whose tokens the folder holds, if any.
absl::Status Claim(const std::string& folder, const std::string& made_of) {
  const std::string path = JoinPath(folder, kMadeOfName);
  if (!FileExists(path)) {
    DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<FileWriter> file, CreateFile(path));
    DISTILL_RETURN_IF_ERROR(file->Append(made_of));
    return file->Commit();
  }
  DISTILL_ASSIGN_OR_RETURN(const std::string there, ReadFile(path));
  if (there == made_of) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(folder, ": holds tokens of other data, or made otherwise (",
                                                    kMadeOfName, " says of what): remove it, or name ",
                                                    "another folder"));
}

class TokenBuilder {
 public:
  TokenBuilder(std::string folder, const TokenFolderOptions& how) : folder_(std::move(folder)), how_(how) {}

  // Takes over the shards that are there, up to the last one behind which the rows can be read on.
  void Resume() {
    for (int64_t i = 0; FileExists(ShardPath(i)); ++i) {
      const absl::StatusOr<std::shared_ptr<const TokenShard>> shard = TokenShard::Open(ShardPath(i));
      if (!shard.ok()) break;  // from there on they are made anew
      const absl::StatusOr<ChatProgress> progress = ChatProgressOf((*shard)->notes());
      if (!progress.ok() || !TakeOver(**shard)) break;
      progress_ = *progress;
      ++shards_;
    }
    if (shards_ > 0) {
      LogInfo(absl::StrCat(folder_, ": resumes behind ", progress_.rows.rows, " rows that were tokenized before"));
    }
  }

  void Add(const TokenSample& sample) {
    writer_.Add(sample);
    Count(sample.ids, sample.is_target);
  }

  absl::Status WriteIfFull() {
    if (static_cast<int64_t>(writer_.bytes()) < how_.shard_bytes) return absl::OkStatus();
    return WriteShard(ToJson(progress_));
  }

  absl::StatusOr<TokenIndex> Finish(TokenIndex index) {
    // Rows may end within a chunk, behind which nothing can be read on: no notes say so.
    if (writer_.size() > 0) DISTILL_RETURN_IF_ERROR(WriteShard(""));
    index.samples = samples_;
    index.tokens = tokens_;
    index.shards = shards_;
    index.summary = progress_.counts.Describe(index.recipe.max_length);
    index.fingerprint = fingerprint_.Text();
    index.progress = ToJson(progress_);
    DISTILL_RETURN_IF_ERROR(NotWritten(WriteTokenIndex(folder_, index)));
    return index;
  }

  ChatProgress& progress() { return progress_; }

 private:
  std::string ShardPath(int64_t shard) const { return JoinPath(folder_, TokenShardName(shard)); }

  absl::Status WriteShard(const std::string& notes) { return NotWritten(writer_.Write(ShardPath(shards_++), notes)); }

  void Count(absl::Span<const int32_t> ids, absl::Span<const uint8_t> is_target) {
    fingerprint_.Add(ids, is_target);
    tokens_ += static_cast<int64_t>(ids.size());
    ++samples_;
  }

  // Whether all its samples are as they were written; counts them then.
  bool TakeOver(const TokenShard& shard) {
    std::vector<Sample> samples;
    for (int64_t i = 0; i < shard.size(); ++i) {
      absl::StatusOr<Sample> sample = shard.Read(i, i);
      if (!sample.ok()) return false;
      samples.push_back(*std::move(sample));
    }
    for (const Sample& sample : samples) Count(*sample.Get<int32_t>("ids"), *sample.Get<uint8_t>("is_target"));
    return true;
  }

  const std::string folder_;
  const TokenFolderOptions how_;
  TokenShardWriter writer_;
  ChatProgress progress_;
  TokenFingerprint fingerprint_;
  int64_t samples_ = 0;
  int64_t tokens_ = 0;
  int64_t shards_ = 0;
};

}  // namespace

TokenRecipe RecipeOf(const Tokenizer& tokenizer, const ChatTemplate& chat_template, const ChatDatasetOptions& options) {
  ContentHash text;
  text.Add(chat_template.text());
  return {.tokenizer = tokenizer.fingerprint(),
          .chat_template = text.Hex(),
          .train_on = options.train_on == TrainOn::kAll ? "all" : "last",
          .max_length = options.max_length};
}

absl::StatusOr<std::optional<std::string>> MadeOf(const std::string& path, const Tokenizer& tokenizer,
                                                  const ChatTemplate& chat_template,
                                                  const ChatDatasetOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, FindRowFiles(path, options.split));
  std::string made_of = absl::StrCat("encoding ", kEncodingVersion, "\n");
  for (const std::string& name : names) {
    if (IsPipe(name)) return std::nullopt;
    DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const ReadableFile> file, OpenFile(name));
    absl::StrAppend(&made_of, "file ", name, " of ", file->size(), " bytes, version ", file->version(), "\n");
  }
  const TokenRecipe recipe = RecipeOf(tokenizer, chat_template, options);
  absl::StrAppend(&made_of, "tokenizer ", recipe.tokenizer, "\nchat_template ", recipe.chat_template, "\ntrain_on ",
                  recipe.train_on, "\nmax_length ", recipe.max_length, "\nnum_samples ", options.num_samples,
                  "\ndataset_columns ", options.rows.columns, "\nbad_rows ",
                  options.rows.bad_rows == BadRows::kSkip ? "skip" : "refuse", "\nmax_bad_rows ",
                  options.rows.max_bad_rows, "\n");
  return made_of;
}

absl::StatusOr<TokenIndex> BuildTokenFolder(const std::string& folder, const std::string& path,
                                            const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                                            const ChatDatasetOptions& options, const std::string& made_of,
                                            const TokenFolderOptions& how) {
  DISTILL_RETURN_IF_ERROR(NotWritten(Claim(folder, made_of)));
  TokenBuilder builder(folder, how);
  builder.Resume();
  DISTILL_RETURN_IF_ERROR(ForEachChatSample(
      path, tokenizer, chat_template, options, builder.progress(),
      [&](const TokenSample& sample, const Conversation&) { builder.Add(sample); },
      [&] { return builder.WriteIfFull(); }));
  return builder.Finish({.made_of = made_of, .recipe = RecipeOf(tokenizer, chat_template, options)});
}

}  // namespace distill
