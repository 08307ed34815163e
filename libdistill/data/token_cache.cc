#include "libdistill/data/token_cache.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/bad_row_list.h"
#include "libdistill/data/token_builder.h"
#include "libdistill/store/content_hash.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/file_lock.h"
#include "libdistill/store/files.h"
#include "libdistill/store/hub_cache.h"

namespace distill {
namespace {

absl::Status RequireSame(const std::string& folder, const char* what, const std::string& made, const std::string& asked,
                         const char* advice) {
  if (made == asked) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(folder, ": these tokens were made with ", what, " ", made, ", not ",
                                                 asked, ": ", advice, ", or make them again (distill_data tokenize)"));
}

absl::Status RequireSameRecipe(const std::string& folder, const TokenRecipe& made, const TokenRecipe& asked) {
  DISTILL_RETURN_IF_ERROR(
      RequireSame(folder, "the tokenizer", made.tokenizer, asked.tokenizer, "name the models that they were made for"));
  DISTILL_RETURN_IF_ERROR(RequireSame(folder, "the chat template", made.chat_template, asked.chat_template,
                                      "set chat_template to the one that they were made with"));
  DISTILL_RETURN_IF_ERROR(RequireSame(folder, "train_on", made.train_on, asked.train_on, "set train_on to it"));
  return RequireSame(folder, "max_length", absl::StrCat(made.max_length), absl::StrCat(asked.max_length),
                     "set max_length to it");
}

// "train.jsonl-0123456789abcdef": for who looks into the cache, and for the computer.
std::string EntryName(const std::string& path, const std::string& made_of) {
  std::string name = NameOfSnapshot(path);  // "org--name", rather than its commit
  if (name.empty()) {
    name = std::filesystem::path(path).filename().string();
    if (name.empty()) name = "data";
    std::replace_if(
        name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '.'; }, '_');
  }
  return absl::StrFormat("%s-%016x", name.substr(0, 100), HashOfBytes(made_of));
}

class CacheEntry {
 public:
  CacheEntry(TokenSource& source, const TokenCache& cache, std::string made_of)
      : source_(source),
        cache_(cache),
        path_(source.options().path),
        made_of_(std::move(made_of)),
        folder_(JoinPath(cache.folder, EntryName(path_, made_of_))) {}

  absl::StatusOr<KeptTokens> Load() {
    if (IsComplete()) {
      absl::StatusOr<KeptTokens> kept = Open();
      if (kept.ok()) {
        LogInfo(absl::StrCat(path_, ": its tokens were made before, in ", folder_));
        return kept;
      }
    }
    DISTILL_RETURN_IF_ERROR(CannotWrite(MakeFolder(cache_.folder)));
    absl::StatusOr<std::unique_ptr<FileLock>> lock = FileLock::Take(absl::StrCat(folder_, ".lock"), [&] {
      LogInfo(absl::StrCat(path_, ": waits until another process has made its tokens, in ", folder_));
    });
    if (!lock.ok()) return CannotWrite(lock.status());
    if (IsComplete()) {  // another process made them meanwhile
      absl::StatusOr<KeptTokens> kept = Open();
      if (kept.ok()) return kept;
    }
    return Build();
  }

 private:
  static absl::Status CannotWrite(absl::Status error) {
    if (!error.ok()) error.SetPayload(kTokensNotWritten, absl::Cord());
    return error;
  }

  bool IsComplete() const {
    if (!IsTokenFolder(folder_)) return false;
    std::error_code error;
    const auto written = std::filesystem::last_write_time(JoinPath(folder_, "tokens.json"), error);
    if (error) return false;
    const auto age = std::filesystem::file_time_type::clock::now() - written;
    return absl::Now() - absl::FromChrono(age) >= cache_.rebuild_before;
  }

  absl::StatusOr<KeptTokens> Open() const {
    DISTILL_ASSIGN_OR_RETURN(const TokenIndex index, ReadTokenIndex(folder_));
    if (index.made_of != made_of_) return absl::DataLossError("the entry is of other data");
    DISTILL_ASSIGN_OR_RETURN(auto tokens, OpenTokenFolder(folder_, index));
    DISTILL_RETURN_IF_ERROR(TellBadRows(index));
    return KeptTokens{std::move(tokens), index.summary};
  }

  // Rows that were left out are told wherever the data are used, not only where they were tokenized.
  absl::Status TellBadRows(const TokenIndex& index) const {
    const std::string before = source_.Progress();
    DISTILL_RETURN_IF_ERROR(source_.Restore(index.progress));
    const RowsRead rows = source_.rows_read();
    DISTILL_RETURN_IF_ERROR(source_.Restore(before));
    return BadRowList(path_, source_.options().rows, rows.bad).Finish(rows.rows);
  }

  absl::StatusOr<KeptTokens> Build() const {
    if (FileExists(JoinPath(folder_, "tokens.json"))) DISTILL_RETURN_IF_ERROR(CannotWrite(RemoveFolder(folder_)));
    DISTILL_RETURN_IF_ERROR(CannotWrite(MakeFolder(folder_)));
    const absl::StatusOr<TokenIndex> index = BuildTokenFolder(folder_, source_, made_of_);
    if (!index.ok()) {
      // Bad data will be other data when they are mended.
      if (absl::IsInvalidArgument(index.status())) RemoveFolder(folder_).IgnoreError();
      return index.status();
    }
    LogInfo(absl::StrCat(path_, ": its ", index->tokens, " tokens are kept in ", folder_));
    DISTILL_ASSIGN_OR_RETURN(auto tokens, OpenTokenFolder(folder_, *index));
    return KeptTokens{std::move(tokens), index->summary};
  }

  TokenSource& source_;
  const TokenCache& cache_;
  const std::string path_;
  const std::string made_of_;
  const std::string folder_;
};

}  // namespace

std::string DefaultTokenCacheFolder() {
  if (const char* folder = std::getenv("DISTILL_CACHE_DIR"); folder != nullptr && *folder != 0) return folder;
  const char* caches = std::getenv("XDG_CACHE_HOME");
  if (caches != nullptr && caches[0] == '/') return JoinPath(caches, "libdistill/tokens");
  const char* home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? JoinPath(home, ".cache/libdistill/tokens") : "";
}

absl::StatusOr<KeptTokens> LoadTokenFolder(const TokenSourceOptions& source) {
  DISTILL_ASSIGN_OR_RETURN(const TokenIndex index, ReadTokenIndex(source.path));
  DISTILL_RETURN_IF_ERROR(RequireSameRecipe(source.path, index.recipe, source.recipe));
  DISTILL_ASSIGN_OR_RETURN(auto tokens, OpenTokenFolder(source.path, index, source.num_rows));
  const std::string summary =
      tokens->size() == index.samples
          ? index.summary
          : absl::StrCat("the first ", tokens->size(), " of ", index.samples, " samples that were tokenized");
  return KeptTokens{std::move(tokens), summary};
}

absl::StatusOr<std::optional<KeptTokens>> LoadThroughTokenCache(TokenSource& source, const TokenCache& cache) {
  DISTILL_ASSIGN_OR_RETURN(std::optional<std::string> made_of, MadeOf(source.options()));
  if (!made_of) return std::nullopt;
  const std::string start = source.Progress();
  absl::StatusOr<KeptTokens> data = CacheEntry(source, cache, *std::move(made_of)).Load();
  if (data.ok()) return *std::move(data);
  DISTILL_RETURN_IF_ERROR(source.Restore(start));
  if (cache.is_required || !data.status().GetPayload(kTokensNotWritten)) return data.status();
  LogWarning(absl::StrCat("tokens are not kept, and each rank makes its own: ", data.status().message(),
                          "; name a folder that can be written (cache_dir)"));
  return std::nullopt;
}

}  // namespace distill
