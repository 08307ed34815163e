#include "libdistill/store/hub_configs.h"

#include <yaml-cpp/yaml.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libdistill/core/star_pattern.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr char kUsual[] = "default";

// Between the two lines "---" at the beginning; empty where there are none.
absl::string_view MetadataOf(absl::string_view card) {
  absl::ConsumePrefix(&card, "\xEF\xBB\xBF");
  if (!absl::ConsumePrefix(&card, "---\n") && !absl::ConsumePrefix(&card, "---\r\n")) return "";
  const size_t end = card.find("\n---");
  return end == absl::string_view::npos ? "" : card.substr(0, end + 1);
}

absl::Status Unreadable(const YAML::Node& node, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("line ", node.Mark().line + 2, " of its card: ", expected, " (configs)"));
}

absl::StatusOr<std::string> TextOf(const YAML::Node& node) {
  if (!node.IsScalar()) return Unreadable(node, "a text is expected");
  return node.Scalar();
}

// A text, or a list of texts; below the folder, where one is given.
absl::StatusOr<std::vector<std::string>> PatternsOf(const YAML::Node& node, const std::string& folder) {
  std::vector<std::string> patterns;
  if (!node.IsSequence() && !node.IsScalar()) return Unreadable(node, "a path, or a list of paths, is expected");
  for (size_t i = 0; i < (node.IsSequence() ? node.size() : 1); ++i) {
    DISTILL_ASSIGN_OR_RETURN(const std::string text, TextOf(node.IsSequence() ? node[i] : node));
    absl::string_view pattern = absl::StripPrefix(text, "./");
    patterns.push_back(folder.empty() ? std::string(pattern) : absl::StrCat(folder, "/", pattern));
  }
  return patterns;
}

// `data_files`: paths of the split train, or a list of splits with their paths.
absl::StatusOr<std::vector<HubSplit>> SplitsOf(const YAML::Node& files, const std::string& folder) {
  std::vector<HubSplit> splits;
  const auto add = [&](const std::string& name, const YAML::Node& paths) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> patterns, PatternsOf(paths, folder));
    splits.push_back({name, std::move(patterns)});
    return absl::OkStatus();
  };
  if (files.IsSequence() && files.size() > 0 && files[0].IsMap()) {
    for (const YAML::Node& entry : files) {
      if (!entry.IsMap() || !entry["split"] || !entry["path"]) return Unreadable(entry, "split and path are expected");
      DISTILL_ASSIGN_OR_RETURN(const std::string name, TextOf(entry["split"]));
      DISTILL_RETURN_IF_ERROR(add(name, entry["path"]));
    }
  } else {
    DISTILL_RETURN_IF_ERROR(add("train", files));
  }
  return splits;
}

absl::StatusOr<HubConfig> ConfigOf(const YAML::Node& entry) {
  HubConfig config{kUsual, "", {}};
  if (!entry.IsMap()) return Unreadable(entry, "a config with config_name and data_files is expected");
  if (const YAML::Node name = entry["config_name"]; name) {
    DISTILL_ASSIGN_OR_RETURN(config.name, TextOf(name));
  }
  if (const YAML::Node folder = entry["data_dir"]; folder) {
    DISTILL_ASSIGN_OR_RETURN(const std::string text, TextOf(folder));
    config.folder = std::string(absl::StripSuffix(absl::StripPrefix(text, "./"), "/"));
    if (config.folder == ".") config.folder.clear();
  }
  if (const YAML::Node files = entry["data_files"]; files) {
    DISTILL_ASSIGN_OR_RETURN(config.splits, SplitsOf(files, config.folder));
  }
  return config;
}

absl::StatusOr<HubConfigs> ConfigsOf(const YAML::Node& metadata) {
  HubConfigs configs;
  const YAML::Node list = metadata.IsMap() ? metadata["configs"] : YAML::Node();
  if (!list || list.IsNull()) return configs;
  if (!list.IsSequence()) return Unreadable(list, "a list is expected");
  constexpr auto kNone = static_cast<size_t>(-1);
  configs.usual = kNone;
  for (const YAML::Node& entry : list) {
    DISTILL_ASSIGN_OR_RETURN(HubConfig config, ConfigOf(entry));
    if (config.splits.empty() && config.folder.empty()) continue;
    const bool is_usual = config.name == kUsual || (entry["default"] && entry["default"].as<bool>(false));
    if (is_usual && configs.usual == kNone) configs.usual = configs.all.size();
    configs.all.push_back(std::move(config));
  }
  if (configs.usual == kNone) configs.usual = configs.all.size() == 1 ? 0 : configs.all.size();
  return configs;
}

// One letter against a class "[...]" whose first bracket is at `at`, which becomes the place behind it. A bracket
// without an end is a letter.
bool MatchesClass(absl::string_view pattern, size_t& at, char letter) {
  size_t end = pattern.find(']', at + 2 + (at + 1 < pattern.size() && pattern[at + 1] == '!' ? 1 : 0));
  if (end == absl::string_view::npos) return letter == pattern[at++];
  absl::string_view letters = pattern.substr(at + 1, end - at - 1);
  at = end + 1;
  const bool others = absl::ConsumePrefix(&letters, "!");
  bool found = false;
  for (size_t i = 0; i < letters.size(); ++i) {
    const bool is_range = i + 2 < letters.size() && letters[i + 1] == '-';
    const char last = is_range ? letters[i + 2] : letters[i];
    found = found || (letters[i] <= letter && letter <= last);
    if (is_range) i += 2;
  }
  return found != others;
}

// A name without slashes.
bool MatchesName(absl::string_view pattern, absl::string_view name) {
  return MatchesStars(pattern, name, [](absl::string_view p, size_t& at, char letter) {
    if (p[at] == '[') return MatchesClass(p, at, letter);
    const char one = p[at++];
    return one == '?' || one == letter;
  });
}

}  // namespace

absl::StatusOr<HubConfigs> ConfigsOfCard(absl::string_view card) {
  try {
    return ConfigsOf(YAML::Load(std::string(MetadataOf(card))));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("its card is not valid YAML: ", error.what()));
  }
}

bool MatchesPath(absl::string_view pattern, absl::string_view path) {
  const std::vector<absl::string_view> parts = absl::StrSplit(pattern, '/'), names = absl::StrSplit(path, '/');
  // reached[n]: the parts so far match the first n names.
  std::vector<bool> reached(names.size() + 1, false);
  reached[0] = true;
  for (const absl::string_view part : parts) {
    std::vector<bool> next(names.size() + 1, false);
    const bool is_any = part == "**";
    for (size_t n = 0; n <= names.size(); ++n) {
      if (is_any) {
        next[n] = reached[n] || (n > 0 && next[n - 1]);
      } else if (n > 0) {
        next[n] = reached[n - 1] && MatchesName(part, names[n - 1]);
      }
    }
    reached = std::move(next);
  }
  return reached.back();
}

}  // namespace distill
