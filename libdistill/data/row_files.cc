#include "libdistill/data/row_files.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/token_folder.h"
#include "libdistill/store/files.h"
#include "libdistill/store/hub_cache.h"
#include "libdistill/store/other_formats.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

// ".jsonl", ".csv", ...; empty for files that hold no rows.
std::string FormatByName(absl::string_view name) {
  const bool is_compressed = absl::ConsumeSuffix(&name, ".gz") || absl::ConsumeSuffix(&name, ".zst");
  for (const char* ending : {".jsonl", ".csv", ".tsv"}) {
    if (absl::EndsWith(name, ending)) return ending;
  }
  return !is_compressed && absl::EndsWith(name, ".parquet") ? ".parquet" : "";
}

// Names of the folder's files of rows, by their format.
absl::StatusOr<std::map<std::string, std::vector<std::string>>> RowFilesIn(const std::string& folder,
                                                                           const std::string& split) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFiles(folder, split, ""));
  std::map<std::string, std::vector<std::string>> by_format;
  for (const std::string& name : names) {
    if (const std::string format = FormatByName(name); !format.empty()) by_format[format].push_back(name);
  }
  return by_format;
}

absl::Status NoSuchFiles(const std::string& folder, const std::string& split) {
  DISTILL_RETURN_IF_ERROR(CheckIsNoOtherFolder(folder));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> others, ListFiles(folder, "", ""));
  if (std::count(others.begin(), others.end(), TokenShardName(0)) > 0) {
    return absl::NotFoundError(absl::StrCat(folder,
                                            ": holds tokens that are not complete: run the distill_data "
                                            "tokenize that makes them again, which resumes"));
  }
  return absl::NotFoundError(absl::StrCat(folder, ": no file matches ", split,
                                          "*.jsonl, .parquet, .csv or .tsv; the folder holds ",
                                          others.empty() ? "no files" : absl::StrJoin(others, ", "),
                                          ": name the split that a file's name begins with, or the file itself"));
}

absl::Status SeveralFormats(const std::string& folder,
                            const std::map<std::string, std::vector<std::string>>& by_format) {
  std::vector<std::string> names;
  for (const auto& [format, of_format] : by_format) names.push_back(of_format.front());
  return absl::InvalidArgumentError(
      absl::StrCat(folder, " holds rows in several formats (", absl::StrJoin(names, ", "),
                   ", ...), which may be copies of one another: name one file, or move the others "
                   "away"));
}

}  // namespace

bool IsRowFileName(absl::string_view name) { return !FormatByName(name).empty(); }

absl::StatusOr<std::vector<std::string>> FindRowFiles(const std::string& path, const std::string& split) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(path));
  DISTILL_ASSIGN_OR_RETURN(const PathKind kind, store->KindOf(path));
  if (kind == PathKind::kFile) return std::vector<std::string>{path};
  if (kind == PathKind::kNothing) {
    return absl::NotFoundError(
        absl::StrCat(path, ": no such file, or it cannot be read; check the path and its permissions"));
  }
  std::string folder = path;
  DISTILL_ASSIGN_OR_RETURN(auto by_format, RowFilesIn(folder, split));
  if (const std::string inner = JoinPath(path, "data"); by_format.empty() && FolderExists(inner)) {
    folder = inner;
    DISTILL_ASSIGN_OR_RETURN(by_format, RowFilesIn(folder, split));
  }
  if (by_format.empty()) return NoSuchFiles(path, split);
  // Of what another program fetched of the hub too, the same is taken as of what is fetched here.
  if (by_format.contains(".parquet") && !NameOfSnapshot(folder).empty()) {
    std::erase_if(by_format, [](const auto& entry) { return entry.first != ".parquet"; });
  }
  if (by_format.size() > 1) return SeveralFormats(folder, by_format);
  std::vector<std::string> files;
  for (const std::string& name : by_format.begin()->second) files.push_back(JoinPath(folder, name));
  return files;
}

}  // namespace distill
