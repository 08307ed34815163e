#include "libdistill/store/hub_name.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/hub_listing.h"

namespace distill {
namespace {

constexpr char kScheme[] = "hf://";
constexpr size_t kLongest = 96;  // each part
// Of files; a repository that is called so is written with hf://.
constexpr const char* kEndings[] = {".jsonl", ".json", ".parquet", ".csv",         ".tsv",   ".gz",  ".zst", ".yaml",
                                    ".yml",   ".txt",  ".hdf5",    ".safetensors", ".arrow", ".bin", ".pt"};

// Repositories that the hub had before it had organisations: their old names are what users and examples still write.
struct OldNames {
  HubKind kind;
  const char* organisation;
  std::vector<absl::string_view> names;
};

const std::vector<OldNames>& AllOldNames() {
  static const std::vector<OldNames>& all = *new std::vector<OldNames>{
      {HubKind::kModel,
       "google-bert",
       {"bert-base-cased", "bert-base-multilingual-cased", "bert-base-multilingual-uncased", "bert-base-uncased",
        "bert-large-cased", "bert-large-cased-whole-word-masking",
        "bert-large-cased-whole-word-masking-finetuned-squad", "bert-large-uncased",
        "bert-large-uncased-whole-word-masking", "bert-large-uncased-whole-word-masking-finetuned-squad"}},
      {HubKind::kModel,
       "distilbert",
       {"distilbert-base-cased", "distilbert-base-cased-distilled-squad", "distilbert-base-multilingual-cased",
        "distilbert-base-uncased", "distilbert-base-uncased-distilled-squad",
        "distilbert-base-uncased-finetuned-sst-2-english", "distilroberta-base"}},
      {HubKind::kModel, "FacebookAI", {"roberta-base", "roberta-large"}},
      {HubKind::kDataset, "rajpurkar", {"squad", "squad_v2"}},
      {HubKind::kDataset, "fancyzhx", {"ag_news", "amazon_polarity", "yelp_polarity"}},
      {HubKind::kDataset, "stanfordnlp", {"imdb"}}};
  return all;
}

// "org/name" of an old name; other texts as they are.
std::string NewName(absl::string_view text, HubKind kind) {
  for (const OldNames& old : AllOldNames()) {
    if (old.kind != kind || absl::c_find(old.names, text) == old.names.end()) continue;
    return absl::StrCat(old.organisation, "/", text);
  }
  return std::string(text);
}

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
}

absl::Status CheckPart(absl::string_view part) {
  if (part.empty() || part.size() > kLongest) {
    return absl::InvalidArgumentError(absl::StrCat("its parts have 1 to ", kLongest, " letters"));
  }
  if (!std::all_of(part.begin(), part.end(), IsNameCharacter)) {
    return absl::InvalidArgumentError("names consist of letters, digits, '-', '_' and '.'");
  }
  for (const char edge : {part.front(), part.back()}) {
    if (edge == '.' || edge == '-') return absl::InvalidArgumentError("no part begins or ends with '.' or '-'");
  }
  if (absl::StrContains(part, "..") || absl::StrContains(part, "--") || absl::EndsWith(part, ".git")) {
    return absl::InvalidArgumentError("it has '..' or '--' in it, or ends with .git");
  }
  return absl::OkStatus();
}

// "main/en" and "refs/pr/3/en" as the revision and what comes behind it.
std::pair<std::string, std::string> SplitRevision(absl::string_view text) {
  const size_t parts = absl::StartsWith(text, "refs/") ? 3 : 1;
  size_t end = 0;
  for (size_t i = 0; i < parts && end != absl::string_view::npos; ++i) end = text.find('/', i == 0 ? 0 : end + 1);
  if (end == absl::string_view::npos) return {std::string(text), ""};
  return {std::string(text.substr(0, end)), std::string(text.substr(end + 1))};
}

absl::Status CheckFolder(const HubName& name) {
  if (name.folder.empty()) return absl::OkStatus();
  if (name.repository.kind == HubKind::kModel) {
    return absl::InvalidArgumentError("models are whole repositories: names are of the form hf://org/name");
  }
  return IsSafeHubPath(name.folder) ? absl::OkStatus()
                                    : absl::InvalidArgumentError(absl::StrCat("'", name.folder, "' is no folder"));
}

bool LooksLikeFile(absl::string_view name) {
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](const char* ending) { return absl::EndsWith(name, ending); });
}

}  // namespace

absl::StatusOr<HubName> ParseHubName(absl::string_view text, HubKind kind) {
  HubName name;
  name.repository.kind = kind;
  name.is_url = absl::ConsumePrefix(&text, kScheme);
  if (name.is_url) absl::ConsumePrefix(&text, kind == HubKind::kDataset ? "datasets/" : "models/");
  if (const size_t at = text.find('@'); at != absl::string_view::npos) {
    name.repository.revision = std::string(text.substr(at + 1));
    if (name.is_url) std::tie(name.repository.revision, name.folder) = SplitRevision(text.substr(at + 1));
    name.has_revision = true;
    text = text.substr(0, at);
    DISTILL_RETURN_IF_ERROR(CheckRevision(name.repository.revision));
  } else if (const size_t second = text.find('/', text.find('/') + 1); name.is_url && second < text.size()) {
    name.folder = std::string(text.substr(second + 1));
    text = text.substr(0, second);
  }
  if (!name.is_url && (text.empty() || absl::StrContains("./~", text.front()))) {
    return absl::InvalidArgumentError("it is a path; names of the hub are of the form org/name");
  }
  DISTILL_RETURN_IF_ERROR(CheckFolder(name));
  const std::string full = NewName(text, kind);
  const std::vector<absl::string_view> parts = absl::StrSplit(full, '/');
  if (parts.size() != 2) return absl::InvalidArgumentError("names are of the form org/name");
  for (const absl::string_view part : parts) DISTILL_RETURN_IF_ERROR(CheckPart(part));
  if (!name.is_url && LooksLikeFile(text)) return absl::InvalidArgumentError("it ends as names of files do");
  name.repository.name = full;
  return name;
}

bool IsHubName(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  return parts.size() == 2 && CheckPart(parts[0]).ok() && CheckPart(parts[1]).ok();
}

std::string TextOf(const HubName& name, const std::string& revision) {
  return absl::StrCat(name.is_url ? kScheme : "", name.repository.name, "@", revision, name.folder.empty() ? "" : "/",
                      name.folder);
}

bool IsCommit(absl::string_view revision) {
  return revision.size() == 40 && std::all_of(revision.begin(), revision.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

absl::Status CheckRevision(absl::string_view revision) {
  const bool is_fine =
      !revision.empty() && revision.size() < 256 && revision.front() != '/' && revision.back() != '/' &&
      !absl::StrContains(revision, "..") && !absl::StrContains(revision, "//") &&
      std::all_of(revision.begin(), revision.end(), [](char c) { return IsNameCharacter(c) || c == '/' || c == '+'; });
  return is_fine ? absl::OkStatus()
                 : absl::InvalidArgumentError(absl::StrCat("'", revision, "' is no branch, tag or commit"));
}

}  // namespace distill
