// What a repository of the hub holds at a commit, and which of it is wanted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/store/hub_client.h"
#include "libdistill/store/hub_configs.h"

namespace distill {

struct HubFile {
  std::string path;  // in the repository; safe to use below a folder
  int64_t size = 0;
  std::string git_oid = "";   // of the blob that git has, which is a pointer for large files
  std::string sha256 = "";    // of a large file; else empty
  std::string xet_hash = "";  // the hub's own, of a large file; kept for other clients

  // By which the cache calls it: its ETag.
  const std::string& etag() const { return sha256.empty() ? git_oid : sha256; }
};

// What a path in a repository may be: relative, without "." or ".." or empty parts, and with no control characters.
bool IsSafeHubPath(absl::string_view path);

// Asks for the commit that the revision is now, `attempts` times at most. Blocks. Errors of HubClient::Send; DataLoss:
// an answer that names none.
[[nodiscard]] absl::StatusOr<std::string> AskForCommit(HubClient& hub, const HubRepository& repository, int attempts);

// Asks for the listing of a commit, page by page. Blocks. Errors of HubClient::Send; DataLoss: an answer that is none,
// or that holds a path which must not be used.
[[nodiscard]] absl::StatusOr<std::vector<HubFile>> ListHubFiles(HubClient& hub, const HubRepository& at_commit);

// As huggingface_hub keeps it in trees/COMMIT.json of the cache.
std::string HubListingToJson(const std::vector<HubFile>& files);
// DataLoss: it is damaged, or of another version of the format.
[[nodiscard]] absl::StatusOr<std::vector<HubFile>> HubListingFromJson(absl::string_view json);

enum class HubContents {
  kConfig,     // config.json
  kTokenizer,  // and the tokenizer's files and chat templates
  kModel,      // and the card, and the weights: safetensors, or pytorch_model.bin where there are none
  kRows,       // of a data set: Parquet files, or its other row files where there are none
};

struct HubSelection {
  HubContents contents = HubContents::kModel;
  std::string split = "";   // of rows: the files whose names begin with it
  std::string folder = "";  // of rows: the config of the card that they are of, or the folder that they lie in; empty:
                            // the card's usual config, or else the top folder, data/, or the only one
};

struct HubChoice {
  std::vector<HubFile> files;  // small ones first
  std::string rows = "";       // of rows: the folder or the file, in the repository, that they are read from
};

// The wanted files that there are. `configs`: of the data set's card. NotFound: none of what is needed is there, with
// what is; InvalidArgument: rows in several folders or configs, of which one must be named, or files of a config that
// are not those of a folder whose names begin with the split.
[[nodiscard]] absl::StatusOr<HubChoice> SelectHubFiles(const std::vector<HubFile>& files, const HubSelection& selection,
                                                       const HubConfigs& configs = {});

constexpr char kHubCard[] = "README.md";  // of a model its license, of a data set its configs

// Whether it is one that a model does without: its card.
bool IsOptional(const HubFile& file, const HubSelection& selection);

}  // namespace distill
