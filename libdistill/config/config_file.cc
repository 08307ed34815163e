// Config files. YAML 1.2 contains JSON, so one reader serves both.
#include <yaml-cpp/yaml.h>

#include <fstream>
#include <set>
#include <sstream>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libdistill/config/llm_config.h"
#include "libdistill/config/option_table.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return absl::NotFoundError(absl::StrCat("config_file: cannot read ", path));
  }
  return text.str();
}

std::vector<std::string> OptionNames() {
  std::vector<std::string> names;
  for (const Option& option : Options()) names.push_back(option.name);
  return names;
}

absl::Status SetFromNode(const std::string& key, const YAML::Node& value, LlmConfig& config) {
  const Option* option = FindOption(key);
  if (option == nullptr && value.IsMap()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown key '", key, "'; keys are flat here: write what is in it without it (--help lists all options)"));
  }
  if (option == nullptr) return UnknownName("key", key, OptionNames());
  if (value.IsNull()) return absl::OkStatus();
  if (!value.IsScalar()) {
    return absl::InvalidArgumentError(absl::StrCat(key, ": expected ", KindOf(*option), ", not a ",
                                                   value.IsMap() ? "map (keys are flat here)" : "list"));
  }
  return Annotate(SetOption(config, *option, value.Scalar()), key);
}

absl::Status SetFromText(const std::string& path, const std::string& text, LlmConfig& config) {
  const YAML::Node root = YAML::Load(text);
  if (root.IsNull()) return absl::OkStatus();
  if (!root.IsMap()) return absl::InvalidArgumentError(absl::StrCat(path, ":1: expected 'name: value' lines"));
  std::set<std::string> seen;
  for (const auto& entry : root) {
    const std::string place = absl::StrCat(path, ":", entry.first.Mark().line + 1);
    if (!entry.first.IsScalar()) return absl::InvalidArgumentError(absl::StrCat(place, ": a key must be a name"));
    const std::string key = entry.first.Scalar();
    if (!seen.insert(key).second) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": ", key, " is given twice"));
    }
    DISTILL_RETURN_IF_ERROR(Annotate(SetFromNode(key, entry.second, config), place));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadConfigFile(const std::string& path, LlmConfig& config) {
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  try {
    return SetFromText(path, text, config);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", error.mark.line + 1, ": ", error.msg));
  }
}

}  // namespace distill
