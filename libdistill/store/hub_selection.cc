#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/hub_listing.h"

namespace distill {
namespace {

constexpr const char* kTokenizerFiles[] = {"tokenizer.json",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "vocab.json",
                                           "merges.txt",
                                           "vocab.txt",
                                           "tokenizer.model",
                                           "spiece.model",
                                           "sentencepiece.bpe.model",
                                           "generation_config.json",
                                           "chat_template.jinja",
                                           "chat_template.json"};
constexpr const char* kRowEndings[] = {".jsonl",  ".csv",     ".tsv",    ".jsonl.gz", ".jsonl.zst",
                                       ".csv.gz", ".csv.zst", ".tsv.gz", ".tsv.zst"};
constexpr char kCard[] = "README.md";  // it has the license, which the card of a student repeats
constexpr size_t kMostNamed = 10;

using Files = std::vector<HubFile>;

bool Has(const Files& files, absl::string_view path) {
  return std::any_of(files.begin(), files.end(), [&](const HubFile& file) { return file.path == path; });
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

absl::string_view NameOf(const std::string& path) {
  return absl::string_view(path).substr(path.rfind('/') + 1);  // npos + 1 is 0
}

std::string Named(const Files& files) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(files.size(), kMostNamed); ++i) names.push_back(files[i].path);
  if (files.size() > kMostNamed) names.push_back("...");
  return names.empty() ? "no files" : absl::StrJoin(names, ", ");
}

// "model-00001-of-00003.safetensors" for ("model", ".safetensors").
bool IsPart(absl::string_view path, absl::string_view stem, absl::string_view ending) {
  return absl::ConsumePrefix(&path, stem) && absl::ConsumePrefix(&path, "-") && absl::ConsumeSuffix(&path, ending) &&
         !absl::StrContains(path, '/');
}

// Of the first of these formats that is there. A repository may hold the same weights several times.
bool IsWeights(const Files& files, const std::string& path) {
  for (const auto& [stem, ending] : {std::pair("model", ".safetensors"), std::pair("pytorch_model", ".bin")}) {
    const std::string whole = absl::StrCat(stem, ending), index = absl::StrCat(whole, ".index.json");
    if (Has(files, whole)) return path == whole;
    if (Has(files, index)) return path == index || IsPart(path, stem, ending);
  }
  return false;
}

absl::StatusOr<Files> SelectModel(const Files& files, HubContents contents) {
  Files selected;
  for (const HubFile& file : files) {
    const bool is_tokenizers =
        std::find(std::begin(kTokenizerFiles), std::end(kTokenizerFiles), file.path) != std::end(kTokenizerFiles) ||
        (absl::StartsWith(file.path, "additional_chat_templates/") && absl::EndsWith(file.path, ".jinja"));
    if (file.path == "config.json" || (contents == HubContents::kModel && file.path == kCard) ||
        (contents != HubContents::kConfig && is_tokenizers) ||
        (contents == HubContents::kModel && IsWeights(files, file.path))) {
      selected.push_back(file);
    }
  }
  if (contents != HubContents::kTokenizer && !Has(selected, "config.json")) {
    return absl::NotFoundError(
        absl::StrCat("it has no config.json, so it is no model of transformers; it holds ", Named(files)));
  }
  if (selected.empty()) {
    return absl::NotFoundError(absl::StrCat("it has no files of a tokenizer; it holds ", Named(files)));
  }
  return selected;
}

bool IsRows(const std::string& path) {
  return std::any_of(std::begin(kRowEndings), std::end(kRowEndings),
                     [&](const char* ending) { return absl::EndsWith(path, ending); });
}

// The top folder first, then data/, then the only other one.
absl::StatusOr<std::string> FolderOfRows(const std::set<std::string>& folders, const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  for (const char* usual : {"", "data"}) {
    if (folders.contains(usual)) return usual;
  }
  if (folders.size() == 1) return *folders.begin();
  return absl::InvalidArgumentError(
      absl::StrCat("it has rows in the folders ", absl::StrJoin(folders, ", "),
                   ", which may be different data: name one of them (hf://ORG/NAME/FOLDER)"));
}

absl::StatusOr<Files> SelectRows(const Files& files, const std::string& split, const std::string& wanted) {
  Files parquet, others;
  for (const HubFile& file : files) {
    if (!absl::StartsWith(NameOf(file.path), split) || (!wanted.empty() && FolderOf(file.path) != wanted)) continue;
    if (absl::EndsWith(file.path, ".parquet")) parquet.push_back(file);
    if (IsRows(file.path)) others.push_back(file);
  }
  Files& found = parquet.empty() ? others : parquet;
  std::set<std::string> folders;
  for (const HubFile& file : found) folders.insert(FolderOf(file.path));
  if (folders.empty()) {
    return absl::NotFoundError(absl::StrCat("no file of rows in it is called ", wanted, wanted.empty() ? "" : "/",
                                            split, "*.parquet, .jsonl, .csv or .tsv; it holds ", Named(files)));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::string folder, FolderOfRows(folders, wanted));
  found.erase(
      std::remove_if(found.begin(), found.end(), [&](const HubFile& file) { return FolderOf(file.path) != folder; }),
      found.end());
  return found;
}

}  // namespace

absl::StatusOr<std::vector<HubFile>> SelectHubFiles(const std::vector<HubFile>& files, const HubSelection& selection) {
  absl::StatusOr<Files> selected = selection.contents == HubContents::kRows
                                       ? SelectRows(files, selection.split, selection.folder)
                                       : SelectModel(files, selection.contents);
  if (selected.ok()) {
    std::stable_sort(selected->begin(), selected->end(),
                     [](const HubFile& a, const HubFile& b) { return a.size < b.size; });
  }
  return selected;
}

bool IsOptional(const HubFile& file, const HubSelection& selection) {
  return selection.contents == HubContents::kModel && file.path == kCard;
}

}  // namespace distill
