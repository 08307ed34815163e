#include "libdistill/data/token_builder.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/row_files.h"
#include "libdistill/data/token_shard.h"
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
  TokenBuilder(std::string folder, TokenSource& source, const TokenFolderOptions& how)
      : folder_(std::move(folder)), source_(source), how_(how) {}

  // Takes over the shards that are there, up to the last one behind which the rows can be read on.
  void Resume() {
    for (int64_t i = 0; FileExists(ShardPath(i)); ++i) {
      const absl::StatusOr<std::shared_ptr<const TokenShard>> shard = TokenShard::Open(ShardPath(i));
      if (!shard.ok()) break;  // from there on they are made anew
      if (!TakeOver(**shard)) break;
      ++shards_;
    }
    if (shards_ > 0) {
      LogInfo(absl::StrCat(folder_, ": resumes behind ", source_.rows_read().rows, " rows that were tokenized before"));
    }
  }

  void Add(const TokenSample& sample) {
    writer_.Add(sample);
    Count(sample.ids, sample.is_target);
  }

  absl::Status WriteIfFull() {
    if (static_cast<int64_t>(writer_.bytes()) < how_.shard_bytes) return absl::OkStatus();
    return WriteShard(source_.Progress());
  }

  absl::StatusOr<TokenIndex> Finish(TokenIndex index) {
    // Rows may end within a chunk, behind which nothing can be read on: no notes say so.
    if (writer_.size() > 0) DISTILL_RETURN_IF_ERROR(WriteShard(""));
    index.samples = samples_;
    index.tokens = tokens_;
    index.shards = shards_;
    index.summary = source_.Summary();
    index.fingerprint = fingerprint_.Text();
    index.progress = source_.Progress();
    DISTILL_RETURN_IF_ERROR(NotWritten(WriteTokenIndex(folder_, index)));
    return index;
  }

 private:
  std::string ShardPath(int64_t shard) const { return JoinPath(folder_, TokenShardName(shard)); }

  absl::Status WriteShard(const std::string& notes) { return NotWritten(writer_.Write(ShardPath(shards_++), notes)); }

  void Count(absl::Span<const int32_t> ids, absl::Span<const uint8_t> is_target) {
    fingerprint_.Add(ids, is_target);
    tokens_ += static_cast<int64_t>(ids.size());
    ++samples_;
  }

  // Whether all its samples are as they were written, and its notes say how far the rows were read; counts them then.
  bool TakeOver(const TokenShard& shard) {
    std::vector<Sample> samples;
    for (int64_t i = 0; i < shard.size(); ++i) {
      absl::StatusOr<Sample> sample = shard.Read(i, i);
      if (!sample.ok()) return false;
      samples.push_back(*std::move(sample));
    }
    if (!source_.Restore(shard.notes()).ok()) return false;
    for (const Sample& sample : samples) Count(*sample.Get<int32_t>("ids"), *sample.Get<uint8_t>("is_target"));
    return true;
  }

  const std::string folder_;
  TokenSource& source_;
  const TokenFolderOptions how_;
  TokenShardWriter writer_;
  TokenFingerprint fingerprint_;
  int64_t samples_ = 0;
  int64_t tokens_ = 0;
  int64_t shards_ = 0;
};

}  // namespace

absl::StatusOr<std::optional<std::string>> MadeOf(const TokenSourceOptions& source) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, FindRowFiles(source.path, source.split));
  std::string made_of = absl::StrCat("encoding ", kEncodingVersion, "\n");
  for (const std::string& name : names) {
    if (IsPipe(name)) return std::nullopt;
    DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const ReadableFile> file, OpenFile(name));
    absl::StrAppend(&made_of, "file ", name, " of ", file->size(), " bytes, version ", file->version(), "\n");
  }
  const TokenRecipe& recipe = source.recipe;
  absl::StrAppend(&made_of, "tokenizer ", recipe.tokenizer, "\nchat_template ", recipe.chat_template, "\ntrain_on ",
                  recipe.train_on, "\nmax_length ", recipe.max_length, "\nnum_samples ", source.num_rows,
                  "\ndataset_columns ", source.rows.columns, source.rows.csv_columns.empty() ? "" : "\ncsv_columns ",
                  source.rows.csv_columns, "\nbad_rows ", source.rows.bad_rows == BadRows::kSkip ? "skip" : "refuse",
                  "\nmax_bad_rows ", source.rows.max_bad_rows, "\n");
  return made_of;
}

absl::StatusOr<TokenIndex> BuildTokenFolder(const std::string& folder, TokenSource& source, const std::string& made_of,
                                            const TokenFolderOptions& how) {
  DISTILL_RETURN_IF_ERROR(NotWritten(Claim(folder, made_of)));
  TokenBuilder builder(folder, source, how);
  builder.Resume();
  DISTILL_RETURN_IF_ERROR(
      source.ForEach([&](const TokenSample& sample) { builder.Add(sample); }, [&] { return builder.WriteIfFull(); }));
  return builder.Finish({.made_of = made_of, .recipe = source.options().recipe});
}

}  // namespace distill
