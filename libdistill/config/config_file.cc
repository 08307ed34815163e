#include "libdistill/config/config_file.h"

#include <yaml-cpp/yaml.h>

#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "libdistill/config/option_names.h"
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

class Reader {
 public:
  // `path`: empty for what stands on a command line.
  Reader(std::string path, const Description& description, std::vector<std::string>& notes)
      : path_(std::move(path)), description_(description), notes_(notes) {}

  // `prefix`: of the map's keys, "" or "training.". The error says all that is wrong, a line each.
  absl::Status ReadMap(const YAML::Node& map, const std::string& prefix) {
    std::vector<std::string> wrong;
    for (const auto& entry : map) {
      const int line = entry.first.Mark().line + 1;
      const std::string place = path_.empty() ? "" : absl::StrCat(path_, ":", line);
      const absl::Status status = At(place, ReadEntry(entry.first, entry.second, prefix, line));
      if (!status.ok()) wrong.emplace_back(status.message());
    }
    return wrong.empty() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrJoin(wrong, "\n"));
  }

 private:
  struct Given {
    int line = 0;
    std::string key, value;
  };

  // Errors out of a map within have their own line already.
  static absl::Status At(const std::string& place, const absl::Status& status) {
    const std::string file = place.substr(0, place.rfind(':') + 1);
    return place.empty() || absl::StartsWith(status.message(), file) ? status : Annotate(status, place);
  }

  absl::Status ReadEntry(const YAML::Node& name, const YAML::Node& value, const std::string& prefix, int line) {
    if (!name.IsScalar()) return absl::InvalidArgumentError("a key must be a name");
    const std::string key = prefix + name.Scalar();
    MeantOption meant{.is_map = value.IsMap() && IsMapName(description_, key)};
    if (!meant.is_map) {
      const absl::StatusOr<std::string> text = TextOf(value);
      // A name that is not taken at all comes before what its value looks like.
      DISTILL_ASSIGN_OR_RETURN(meant, FindOption(description_, NameKind::kKey, key, text.value_or("")));
      DISTILL_RETURN_IF_ERROR(text.status());
    }
    const std::string own = meant.field == nullptr ? key : meant.field->name;
    const auto [before, is_new] = given_.emplace(own, Given{line, key, meant.value});
    if (!is_new) {
      const Given& first = before->second;
      if (first.key != key && first.value == meant.value) return absl::OkStatus();  // two names, and the same said
      const std::string as = own == key ? "" : absl::StrCat(" (as ", key, ")");
      const std::string where = first.line == line ? "" : absl::StrCat(", first in line ", first.line);
      return absl::InvalidArgumentError(absl::StrCat(own, as, " is given twice", where));
    }
    if (value.IsNull()) return absl::OkStatus();
    if (meant.is_map) {
      if (value.IsMap()) return ReadMap(value, key + ".");
      return absl::InvalidArgumentError(absl::StrCat(key, ": expected a map, 'name: value' lines"));
    }
    if (!meant.note.empty()) notes_.push_back(meant.note);
    if (meant.field == nullptr) return absl::OkStatus();
    return Annotate(Set(*meant.field, value, meant.value), own == key ? own : absl::StrCat(key, " (", own, ")"));
  }

  // A list becomes "[a, b]"; a map, which only a section takes, "".
  static absl::StatusOr<std::string> TextOf(const YAML::Node& value) {
    if (value.IsScalar()) return value.Scalar();
    if (value.IsNull()) return "null";
    std::string text;
    if (value.IsSequence()) {
      for (const auto& element : value) {
        if (!element.IsScalar()) return absl::InvalidArgumentError("a list may hold words and numbers only");
        absl::StrAppend(&text, text.empty() ? "[" : ", ", element.Scalar());
      }
      return absl::StrCat(text.empty() ? "[" : text, "]");
    }
    return text;
  }

  static absl::Status Set(const FieldDescription& field, const YAML::Node& value, const std::string& text) {
    const bool is_list = field.takes_list || absl::string_view(field.kind.type) == "LIST";
    if (value.IsMap() || (value.IsSequence() && !is_list)) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected ", field.kind.words, ", not a ", value.IsMap() ? "map" : "list"));
    }
    if (!field.takes_list || !value.IsSequence()) return SetOption(field, text);
    return SetOption(field, text.substr(1, text.size() - 2));  // without the brackets
  }

  const std::string path_;
  const Description& description_;
  std::vector<std::string>& notes_;
  std::map<std::string, Given> given_;  // by the options' own names
};

// Plain where YAML reads it back as the same text; quoted otherwise.
std::string YamlScalar(const std::string& value) {
  constexpr absl::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./";
  const bool is_null = absl::EqualsIgnoreCase(value, "null");
  if (!value.empty() && !is_null && value.find_first_not_of(kPlain.data()) == std::string::npos && value[0] != '-') {
    return value;
  }
  if (absl::StartsWith(value, "-") && value.find_first_not_of("0123456789.e", 1) == std::string::npos) return value;
  const std::string escaped =
      absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}, {"\r", "\\r"}, {"\t", "\\t"}});
  return absl::StrCat("\"", escaped, "\"");
}

}  // namespace

absl::Status ReadConfigFile(const std::string& path, const Description& description, std::vector<std::string>& notes) {
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  try {
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return absl::OkStatus();
    if (!root.IsMap()) return absl::InvalidArgumentError(absl::StrCat(path, ":1: expected 'name: value' lines"));
    return Reader(path, description, notes).ReadMap(root, "");
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", error.mark.line + 1, ": ", error.msg));
  }
}

absl::Status ReadConfigMap(const std::string& name, const std::string& text, const Description& description,
                           std::vector<std::string>& notes) {
  try {
    const YAML::Node map = YAML::Load(text);
    if (map.IsNull()) return absl::OkStatus();
    if (map.IsMap())
      return Reader("", description, notes).ReadMap(map, absl::StrCat(absl::StripPrefix(name, "--"), "."));
  } catch (const YAML::Exception&) {
  }
  return absl::InvalidArgumentError(absl::StrCat(name, ": expected a map, {name: value, ...}, not '", text, "'"));
}

std::string ValuesToYaml(const FieldValues& values) {
  std::string text;
  for (const auto& [name, value] : values) absl::StrAppend(&text, name, ": ", YamlScalar(value), "\n");
  return text;
}

absl::StatusOr<FieldValues> ValuesFromYaml(const std::string& text) {
  FieldValues values;
  try {
    const YAML::Node root = YAML::Load(text);
    if (!root.IsMap() && !root.IsNull()) return absl::InvalidArgumentError("expected 'name: value' lines");
    for (const auto& entry : root) {
      if (!entry.first.IsScalar() || !entry.second.IsScalar()) {
        return absl::InvalidArgumentError("expected 'name: value' lines");
      }
      values.emplace_back(entry.first.Scalar(), entry.second.Scalar());
    }
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("line ", error.mark.line + 1, ": ", error.msg));
  }
  return values;
}

}  // namespace distill
