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
#include "libdistill/data/chat_counts.h"
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

// Rows that were left out are told wherever the data are used, not only where they were tokenized.
absl::Status TellBadRows(const std::string& path, const TokenIndex& index, const RowOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const ChatProgress progress, ChatProgressOf(index.progress));
  return BadRowList(path, options, progress.rows.bad).Finish(progress.rows.rows);
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
  CacheEntry(std::string path, const Tokenizer& tokenizer, const ChatTemplate& chat_template,
             const ChatDatasetOptions& options, std::string made_of)
      : path_(std::move(path)),
        tokenizer_(tokenizer),
        chat_template_(chat_template),
        options_(options),
        made_of_(std::move(made_of)),
        folder_(JoinPath(options.cache.folder, EntryName(path_, made_of_))) {}

  absl::StatusOr<ChatDataset> Load() {
    if (IsComplete()) {
      absl::StatusOr<ChatDataset> kept = Open();
      if (kept.ok()) {
        LogInfo(absl::StrCat(path_, ": its tokens were made before, in ", folder_));
        return kept;
      }
    }
    DISTILL_RETURN_IF_ERROR(CannotWrite(MakeFolder(options_.cache.folder)));
    absl::StatusOr<std::unique_ptr<FileLock>> lock = FileLock::Take(absl::StrCat(folder_, ".lock"), [&] {
      LogInfo(absl::StrCat(path_, ": waits until another process has made its tokens, in ", folder_));
    });
    if (!lock.ok()) return CannotWrite(lock.status());
    if (IsComplete()) {  // another process made them meanwhile
      absl::StatusOr<ChatDataset> kept = Open();
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
    return absl::Now() - absl::FromChrono(age) >= options_.cache.rebuild_before;
  }

  absl::StatusOr<ChatDataset> Open() const {
    DISTILL_ASSIGN_OR_RETURN(const TokenIndex index, ReadTokenIndex(folder_));
    if (index.made_of != made_of_) return absl::DataLossError("the entry is of other data");
    DISTILL_ASSIGN_OR_RETURN(auto tokens, OpenTokenFolder(folder_, index));
    DISTILL_RETURN_IF_ERROR(TellBadRows(path_, index, options_.rows));
    return ChatDataset{std::move(tokens), {}, index.summary};
  }

  absl::StatusOr<ChatDataset> Build() const {
    if (FileExists(JoinPath(folder_, "tokens.json"))) DISTILL_RETURN_IF_ERROR(CannotWrite(RemoveFolder(folder_)));
    DISTILL_RETURN_IF_ERROR(CannotWrite(MakeFolder(folder_)));
    const absl::StatusOr<TokenIndex> index =
        BuildTokenFolder(folder_, path_, tokenizer_, chat_template_, options_, made_of_);
    if (!index.ok()) {
      // Bad data will be other data when they are mended.
      if (absl::IsInvalidArgument(index.status())) RemoveFolder(folder_).IgnoreError();
      return index.status();
    }
    LogInfo(absl::StrCat(path_, ": its ", index->tokens, " tokens are kept in ", folder_));
    DISTILL_ASSIGN_OR_RETURN(auto tokens, OpenTokenFolder(folder_, *index));
    return ChatDataset{std::move(tokens), {}, index->summary};
  }

  const std::string path_;
  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_template_;
  const ChatDatasetOptions& options_;
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

absl::StatusOr<ChatDataset> LoadTokenFolder(const std::string& folder, const Tokenizer& tokenizer,
                                            const ChatTemplate& chat_template, const ChatDatasetOptions& options) {
  if (options.keep_conversations) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": holds tokens alone, and texts are needed here: name the rows that it was made of"));
  }
  DISTILL_ASSIGN_OR_RETURN(const TokenIndex index, ReadTokenIndex(folder));
  DISTILL_RETURN_IF_ERROR(RequireSameRecipe(folder, index.recipe, RecipeOf(tokenizer, chat_template, options)));
  DISTILL_ASSIGN_OR_RETURN(auto tokens, OpenTokenFolder(folder, index, options.num_samples));
  const std::string summary =
      tokens->size() == index.samples
          ? index.summary
          : absl::StrCat("the first ", tokens->size(), " of ", index.samples, " samples that were tokenized");
  return ChatDataset{std::move(tokens), {}, summary};
}

absl::StatusOr<std::optional<ChatDataset>> LoadThroughTokenCache(const std::string& path, const Tokenizer& tokenizer,
                                                                 const ChatTemplate& chat_template,
                                                                 const ChatDatasetOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(std::optional<std::string> made_of, MadeOf(path, tokenizer, chat_template, options));
  if (!made_of) return std::nullopt;
  absl::StatusOr<ChatDataset> data = CacheEntry(path, tokenizer, chat_template, options, *std::move(made_of)).Load();
  if (data.ok()) return *std::move(data);
  if (options.cache.is_required || !data.status().GetPayload(kTokensNotWritten)) return data.status();
  LogWarning(absl::StrCat("tokens are not kept, and each rank makes its own: ", data.status().message(),
                          "; name a folder that can be written (cache_dir)"));
  return std::nullopt;
}

}  // namespace distill
