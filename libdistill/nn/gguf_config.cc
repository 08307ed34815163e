#include "libdistill/nn/gguf_config.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/gguf_families.h"
#include "libdistill/store/files.h"
#include "libdistill/store/gguf.h"
#include "libdistill/store/weight_files.h"
#include "libdistill/store/weights_folder.h"

namespace distill {
namespace {

absl::StatusOr<ConfigText> ConfigOf(const std::string& folder, const std::string& first) {
  DISTILL_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(first));
  DISTILL_ASSIGN_OR_RETURN(const WeightsFolder weights, WeightsFolder::Open(folder));
  absl::StatusOr<std::string> text = ConfigOfGguf(file.metadata(), weights);
  if (!text.ok()) return Annotate(text.status(), first);
  return ConfigText{*std::move(text), absl::StrCat(first, " as a config.json")};
}

// The model that it was made from, as far as its metadata say.
std::string OriginalOf(const GgufMetadata& metadata) {
  for (const char* key : {"general.base_model.0.repo_url", "general.source.repo_url", "general.repo_url",
                          "general.base_model.0.name", "general.name"}) {
    const std::string text = GgufText(metadata, key);
    if (!text.empty()) return absl::StrCat(text, " (by the file's ", key, ")");
  }
  return "the model that it was made from";
}

}  // namespace

absl::StatusOr<ConfigText> ReadConfigJson(const std::string& folder) {
  std::string path = JoinPath(folder, "config.json");
  if (!FileExists(path)) {
    const absl::StatusOr<std::vector<std::string>> names = GgufFilesIn(folder);
    if (absl::IsFailedPrecondition(names.status())) return names.status();
    if (names.ok() && !names->empty()) return ConfigOf(folder, JoinPath(folder, names->front()));
  }
  if (FileExists(folder)) return absl::NotFoundError(absl::StrCat(folder, " is a file; name the folder that holds it"));
  absl::StatusOr<std::string> text = ReadFile(path);  // whose error says what is wrong
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat(text.status().message(), AdviceOnStandingSave(folder)));
  }
  return ConfigText{*std::move(text), std::move(path)};
}

std::string ConfigPath(const std::string& folder) {
  std::string path = JoinPath(folder, "config.json");
  if (FileExists(path)) return path;
  const absl::StatusOr<std::vector<std::string>> names = GgufFilesIn(folder);
  return names.ok() && !names->empty() ? JoinPath(folder, names->front()) : path;
}

absl::Status CheckGgufTokenizer(const std::string& folder) {
  if (!WeightsFolder::IsGguf(folder)) return absl::OkStatus();
  for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt"}) {
    if (FileExists(JoinPath(folder, name))) return absl::OkStatus();
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, GgufFilesIn(folder));
  DISTILL_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(JoinPath(folder, names.front())));
  return absl::FailedPreconditionError(
      absl::StrCat(folder, " has no tokenizer beside ", names.front(), ", and the one within is not read: copy ",
                   "tokenizer.json and tokenizer_config.json of ", OriginalOf(file.metadata()), " into the folder"));
}

}  // namespace distill
