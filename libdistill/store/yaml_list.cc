#include "libdistill/store/yaml_list.h"

#include <yaml-cpp/yaml.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

absl::Status Wrong(const std::string& path, const YAML::Mark& mark, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ":", mark.line + 1, ": ", what));
}

// Of a key that the map has; what has no text of its own, as an empty value, has no place either.
YAML::Mark MarkOf(const YAML::Node& map, const std::string& key) {
  for (const auto& entry : map) {
    if (entry.first.IsScalar() && entry.first.Scalar() == key) return entry.first.Mark();
  }
  return map.Mark();
}

absl::StatusOr<std::vector<YamlItem>> ItemsOf(const YAML::Node& root, const std::string& path, const std::string& key) {
  const std::string expected = absl::StrCat("expected a list under '", key, ":', '- NAME' lines");
  if (!root.IsMap()) return absl::InvalidArgumentError(absl::StrCat(path, ":1: ", expected));
  const YAML::Node list = root[key];
  if (!list) return absl::InvalidArgumentError(absl::StrCat(path, ": has no key ", key, "; ", expected));
  if (list.IsNull() || (list.IsSequence() && list.size() == 0)) {
    return Wrong(path, MarkOf(root, key), absl::StrCat(key, " is an empty list"));
  }
  if (!list.IsSequence()) return Wrong(path, MarkOf(root, key), expected);
  std::vector<YamlItem> items;
  for (const YAML::Node& item : list) {
    if (!item.IsScalar() || item.Scalar().empty()) return Wrong(path, item.Mark(), "expected a name in this line");
    items.push_back({item.Scalar(), absl::StrCat(path, ":", item.Mark().line + 1)});
  }
  return items;
}

}  // namespace

absl::StatusOr<std::vector<YamlItem>> ReadYamlList(const std::string& path, const std::string& key) {
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  try {
    return ItemsOf(YAML::Load(text), path, key);
  } catch (const YAML::Exception& error) {
    return Wrong(path, error.mark, error.msg);
  }
}

}  // namespace distill
