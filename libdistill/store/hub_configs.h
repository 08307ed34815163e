// What the card of a data set on the hub says of its files: `configs:` in the YAML at the beginning of README.md, as
// the datasets library reads it. A repository of several data sets, or whose files are called otherwise than their
// splits, says so there:
//
//   configs:
//   - config_name: en
//     default: true
//     data_files:
//     - split: train
//       path: ["data/en-*.parquet"]
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

struct HubSplit {
  std::string name;
  std::vector<std::string> patterns;  // of paths in the repository: MatchesPath
};

struct HubConfig {
  std::string name;
  std::string folder;            // data_dir: where its files are, with splits as their names say; "": not given
  std::vector<HubSplit> splits;  // none: not given
};

struct HubConfigs {
  std::vector<HubConfig> all;  // those that say which files are theirs, in the card's order
  // Which one is meant where none is named: that of `default: true` or of the name "default", else the only one; all's
  // size where there is none.
  size_t usual = 0;
};

// Of a card without configs: none. InvalidArgument: its YAML, or its configs, cannot be read.
[[nodiscard]] absl::StatusOr<HubConfigs> ConfigsOfCard(absl::string_view card);

// Whether a path is one of those that the pattern means: "*" and "?" stand for letters of a name, "[0-9]" and "[!a]"
// for one of them or one of the others, and "**", as a part of its own, for any number of folders.
bool MatchesPath(absl::string_view pattern, absl::string_view path);

}  // namespace distill
