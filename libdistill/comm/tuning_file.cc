#include "libdistill/comm/tuning_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

struct Field {
  const char* name;
  double* value;
};

std::vector<Field> FieldsOf(LinkCost& link) {
  return {
      {"latency_us", &link.latency_us}, {"gap_us", &link.gap_us}, {"gigabytes_per_second", &link.gigabytes_per_second}};
}

absl::Status Refuse(const YAML::Node& node, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", std::max(node.Mark().line, 0) + 1, ": ", what));
}

absl::Status RequireKeys(const YAML::Node& map, const std::vector<std::string>& keys) {
  if (!map.IsMap()) return Refuse(map, absl::StrCat("expected the keys ", absl::StrJoin(keys, ", ")));
  for (const auto& entry : map) {
    const std::string key = entry.first.Scalar();
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return Refuse(entry.first, absl::StrCat("unknown key '", key, "'; ", absl::StrJoin(keys, ", "), " are known"));
    }
  }
  for (const std::string& key : keys) {
    if (!map[key]) return Refuse(map, absl::StrCat("no key ", key));
  }
  return absl::OkStatus();
}

absl::Status ReadNumber(const YAML::Node& node, const std::string& key, double& value) {
  if (node.IsScalar() && absl::SimpleAtod(node.Scalar(), &value)) return absl::OkStatus();
  return Refuse(node, absl::StrCat(key, " is no number"));
}

absl::Status ReadLink(const YAML::Node& node, LinkCost& link) {
  const std::vector<Field> fields = FieldsOf(link);
  std::vector<std::string> keys;
  for (const Field& field : fields) keys.push_back(field.name);
  DISTILL_RETURN_IF_ERROR(RequireKeys(node, keys));
  for (const Field& field : fields) {
    DISTILL_RETURN_IF_ERROR(ReadNumber(node[field.name], field.name, *field.value));
  }
  return absl::OkStatus();
}

absl::StatusOr<CostTable> ReadTable(const std::string& text) {
  constexpr char kReduction[] = "reduction_gigabytes_per_second";
  const YAML::Node root = YAML::Load(text);
  DISTILL_RETURN_IF_ERROR(RequireKeys(root, {"shared_memory", "network", kReduction}));
  CostTable table;
  DISTILL_RETURN_IF_ERROR(ReadLink(root["shared_memory"], table.shared_memory));
  DISTILL_RETURN_IF_ERROR(ReadLink(root["network"], table.network));
  DISTILL_RETURN_IF_ERROR(ReadNumber(root[kReduction], kReduction, table.reduction_gigabytes_per_second));
  DISTILL_RETURN_IF_ERROR(CheckTable(table));
  return table;
}

absl::StatusOr<AlgorithmPreference> PreferenceOf(const CommunicatorOptions& options) {
  const char* value = std::getenv("DISTILL_COMM_ALGORITHM");
  AlgorithmPreference preference = options.algorithm;
  if (value == nullptr || preference != AlgorithmPreference::kAuto || ParseField(std::string(value), preference)) {
    return preference;
  }
  const auto name = [](std::string* out, const auto& known) { out->append(known.name); };
  return absl::InvalidArgumentError(
      absl::StrCat("comm_algorithm is '", value, "'; ", absl::StrJoin(NamesOf(preference), ", ", name), " are known"));
}

}  // namespace

absl::StatusOr<CostTable> ReadTuningFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  const bool opened = file.is_open();
  if (opened && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!opened || file.bad()) {
    return absl::NotFoundError(absl::StrCat("cannot read the tuning file ", path, ": ", std::strerror(errno),
                                            " (distillrun --tune writes one)"));
  }
  absl::StatusOr<CostTable> table;
  try {
    table = ReadTable(text.str());
  } catch (const YAML::Exception& error) {
    table = absl::InvalidArgumentError(absl::StrCat("line ", error.mark.line + 1, ": ", error.msg));
  }
  if (table.ok()) return table;
  return Annotate(table.status(), absl::StrCat("the tuning file ", path));
}

std::string TuningFileText(const CostTable& table) {
  std::string text = "# What messages, bytes and additions cost; written by distillrun --tune (docs/formats.md).\n";
  LinkCost shared_memory = table.shared_memory, network = table.network;
  const std::pair<const char*, LinkCost*> places[] = {{"shared_memory", &shared_memory}, {"network", &network}};
  for (const auto& [name, link] : places) {
    absl::StrAppend(&text, name, ":\n");
    for (const Field& field : FieldsOf(*link)) absl::StrAppend(&text, "  ", field.name, ": ", *field.value, "\n");
  }
  absl::StrAppend(&text, "reduction_gigabytes_per_second: ", table.reduction_gigabytes_per_second, "\n");
  return text;
}

absl::StatusOr<CommTuning> ReadTuning(const CommunicatorOptions& options, bool with_table) {
  DISTILL_ASSIGN_OR_RETURN(const AlgorithmPreference preference, PreferenceOf(options));
  const char* file = std::getenv("DISTILL_COMM_TUNING_FILE");
  const std::string path = options.tuning_file.empty() && file != nullptr ? file : options.tuning_file;
  if (!with_table || path.empty()) return CommTuning({}, preference);
  DISTILL_ASSIGN_OR_RETURN(const CostTable table, ReadTuningFile(path));
  return CommTuning(table, preference);
}

}  // namespace distill
