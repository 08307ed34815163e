// How users write the name of a repository of the hub: "org/name", "org/name@REVISION", or "hf://org/name" where it
// must not be taken for a path, or where a folder of a data set is meant: "hf://org/name@REVISION/FOLDER". In the place
// of the folder may stand a config that the data set's card names (hub_configs.h). Some names are older than
// organisations: "bert-base-uncased" is "google-bert/bert-base-uncased", "squad" is "rajpurkar/squad".
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/store/hub_client.h"

namespace distill {

struct HubName {
  HubRepository repository;
  bool has_revision = false;  // the name has one; else the repository's is "main"
  bool is_url = false;        // it was written with hf://
  std::string folder;         // of a data set, or a config, that the name ends with; else empty
};

// InvalidArgument: it can be none; the message says why, without the name. Paths of more than two parts, with a "." or
// "~" at their start, or that end as files of data do (.jsonl, .yaml, ...) are none unless they begin with hf://.
// "hf://datasets/org/name" is a data set. A revision before a folder has no "/" in it, but for refs/pr/3 and its like.
[[nodiscard]] absl::StatusOr<HubName> ParseHubName(absl::string_view text, HubKind kind);

// Whether it is "org/name", and nothing more, of what a repository may be called.
bool IsHubName(absl::string_view text);

// The name as it is written, with this revision: "org/name@REVISION", with its folder.
std::string TextOf(const HubName& name, const std::string& revision);

// Whether it is a commit's full name, and not that of a branch or a tag.
bool IsCommit(absl::string_view revision);

// InvalidArgument: what no branch, tag or commit is called, such as a path out of its folder.
[[nodiscard]] absl::Status CheckRevision(absl::string_view revision);

}  // namespace distill
