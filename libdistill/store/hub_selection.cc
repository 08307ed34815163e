#include <algorithm>
#include <optional>
#include <set>
#include <utility>

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

// The first ones.
template <typename T>
std::string Named(const std::vector<T>& things, std::string T::*name) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(things.size(), kMostNamed); ++i) names.push_back(things[i].*name);
  if (things.size() > kMostNamed) names.push_back("...");
  return absl::StrJoin(names, ", ");
}

std::string Named(const Files& files) { return files.empty() ? "no files" : Named(files, &HubFile::path); }

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
    if (file.path == "config.json" || (contents == HubContents::kModel && file.path == kHubCard) ||
        (contents != HubContents::kConfig && is_tokenizers) ||
        (contents == HubContents::kModel && IsWeights(files, file.path))) {
      selected.push_back(file);
    }
  }
  const auto is_gguf = [](const HubFile& file) { return absl::EndsWith(file.path, ".gguf"); };
  if (contents != HubContents::kTokenizer && !Has(selected, "config.json") &&
      std::any_of(files.begin(), files.end(), is_gguf)) {
    return absl::NotFoundError(absl::StrCat(
        "it holds GGUF files, and does not say which: download one into a folder of its own, with tokenizer.json and ",
        "tokenizer_config.json of the original model, and name that folder; it holds ", Named(files)));
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

// Of a folder, or of any, the rows of the split; of files that may be copies of one another, those of Parquet.
Files RowsOf(const Files& files, const std::string& split, const std::optional<std::string>& folder) {
  Files parquet, others;
  for (const HubFile& file : files) {
    if (!absl::StartsWith(NameOf(file.path), split) || (folder && FolderOf(file.path) != *folder)) continue;
    if (absl::EndsWith(file.path, ".parquet")) parquet.push_back(file);
    if (IsRows(file.path)) others.push_back(file);
  }
  return parquet.empty() ? others : parquet;
}

absl::StatusOr<HubChoice> SelectRowsByName(const Files& files, const std::string& split, const std::string& wanted) {
  Files found = RowsOf(files, split, wanted.empty() ? std::nullopt : std::make_optional(wanted));
  std::set<std::string> folders;
  for (const HubFile& file : found) folders.insert(FolderOf(file.path));
  if (folders.empty()) {
    return absl::NotFoundError(absl::StrCat("no file of rows in it is called ", wanted, wanted.empty() ? "" : "/",
                                            split, "*.parquet, .jsonl, .csv or .tsv; it holds ", Named(files)));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::string folder, FolderOfRows(folders, wanted));
  std::erase_if(found, [&](const HubFile& file) { return FolderOf(file.path) != folder; });
  return HubChoice{std::move(found), folder};
}

// The config that is meant; null: the card has none of this name, or none that is the usual one.
const HubConfig* ConfigOf(const HubConfigs& configs, const std::string& wanted) {
  if (wanted.empty()) return configs.usual < configs.all.size() ? &configs.all[configs.usual] : nullptr;
  const auto found = std::find_if(configs.all.begin(), configs.all.end(),
                                  [&](const HubConfig& config) { return config.name == wanted; });
  return found == configs.all.end() ? nullptr : &*found;
}

// Of the split, or of all where it is "".
Files FilesOf(const HubConfig& config, const Files& files, const std::string& split) {
  Files found;
  for (const HubFile& file : files) {
    const bool is_wanted = std::any_of(config.splits.begin(), config.splits.end(), [&](const HubSplit& one) {
      return (split.empty() || one.name == split) &&
             std::any_of(one.patterns.begin(), one.patterns.end(),
                         [&](const std::string& pattern) { return MatchesPath(pattern, file.path); });
    });
    if (is_wanted) found.push_back(file);
  }
  return found;
}

// Whoever reads rows takes a folder and a split, or a file.
absl::StatusOr<HubChoice> ChoiceOf(Files found, const HubConfig& config, const Files& files, const std::string& split) {
  const std::string folder = FolderOf(found.front().path);
  const Files by_name = RowsOf(files, split, folder);
  const bool are_same = std::equal(found.begin(), found.end(), by_name.begin(), by_name.end(),
                                   [](const HubFile& a, const HubFile& b) { return a.path == b.path; });
  if (are_same) return HubChoice{std::move(found), folder};
  if (found.size() == 1) {
    std::string path = found.front().path;
    return HubChoice{std::move(found), std::move(path)};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "its card says that the split '", split, "' of the config ", config.name, " are the files ", Named(found),
      ", which are not those of one folder whose names begin with the split: name a folder and what its files' names "
      "begin with (hf://ORG/NAME/FOLDER), or download the files and name a folder of your own"));
}

// What the card says of the split, else the files whose names begin with it, which may be less than a split.
absl::StatusOr<HubChoice> SelectRowsByCard(const Files& files, const HubSelection& selection, const HubConfig& config) {
  const std::string& split = selection.split;
  if (config.splits.empty()) return SelectRowsByName(files, split, config.folder);
  if (Files found = FilesOf(config, files, split); !found.empty()) {
    return ChoiceOf(std::move(found), config, files, split);
  }
  const bool is_folder = !selection.folder.empty() && !RowsOf(files, split, selection.folder).empty();
  absl::StatusOr<HubChoice> choice = SelectRowsByName(files, split, is_folder ? selection.folder : config.folder);
  if (choice.ok()) return choice;
  return absl::Status(choice.status().code(),
                      absl::StrCat(choice.status().message(), "; by its card the config ", config.name,
                                   " has the splits ", Named(config.splits, &HubSplit::name)));
}

absl::StatusOr<HubChoice> SelectRows(const Files& files, const HubSelection& selection, const HubConfigs& configs) {
  const HubConfig* const config = ConfigOf(configs, selection.folder);
  if (config != nullptr) return SelectRowsByCard(files, selection, *config);
  if (configs.all.empty()) return SelectRowsByName(files, selection.split, selection.folder);
  const std::string known = absl::StrCat("it has the configs ", Named(configs.all, &HubConfig::name),
                                         ": name one of them (hf://ORG/NAME/CONFIG)");
  if (selection.folder.empty()) return absl::InvalidArgumentError(known);
  absl::StatusOr<HubChoice> choice = SelectRowsByName(files, selection.split, selection.folder);
  if (choice.ok()) return choice;
  return absl::Status(choice.status().code(), absl::StrCat(choice.status().message(), "; ", known));
}

}  // namespace

absl::StatusOr<HubChoice> SelectHubFiles(const std::vector<HubFile>& files, const HubSelection& selection,
                                         const HubConfigs& configs) {
  HubChoice choice;
  if (selection.contents == HubContents::kRows) {
    DISTILL_ASSIGN_OR_RETURN(choice, SelectRows(files, selection, configs));
  } else {
    DISTILL_ASSIGN_OR_RETURN(choice.files, SelectModel(files, selection.contents));
  }
  std::stable_sort(choice.files.begin(), choice.files.end(),
                   [](const HubFile& a, const HubFile& b) { return a.size < b.size; });
  return choice;
}

bool IsOptional(const HubFile& file, const HubSelection& selection) {
  return selection.contents == HubContents::kModel && file.path == kHubCard;
}

}  // namespace distill
