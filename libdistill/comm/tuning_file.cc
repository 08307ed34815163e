#include "libdistill/comm/tuning_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

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

absl::StatusOr<CostTable> ReadTable(const std::string& text) {
  const YAML::Node root = YAML::Load(text);
  DISTILL_RETURN_IF_ERROR(RequireKeys(root, {"shared_memory", "network", "reduction_gigabytes_per_second"}));
  for (const char* link : {"shared_memory", "network"}) {
    DISTILL_RETURN_IF_ERROR(RequireKeys(root[link], {"latency_us", "gap_us", "gigabytes_per_second"}));
  }
  CostTable table;
  for (const CostField& field : FieldsOf(table)) {
    const YAML::Node node = *field.link == '\0' ? root[field.name] : root[field.link][field.name];
    if (node.IsScalar() && absl::SimpleAtod(node.Scalar(), field.value)) continue;
    return Refuse(node, absl::StrCat(field.name, " is no number"));
  }
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

std::string TuningFileText(CostTable table) {
  std::string text = "# What messages, bytes and additions cost; written by distillrun --tune (docs/formats.md).\n";
  absl::string_view link;
  for (const CostField& field : FieldsOf(table)) {
    if (field.link != std::exchange(link, field.link) && !link.empty()) absl::StrAppend(&text, link, ":\n");
    absl::StrAppend(&text, link.empty() ? "" : "  ", field.name, ": ", *field.value, "\n");
  }
  return text;
}

absl::StatusOr<CommTuning> ReadTuning(const CommunicatorOptions& options, bool with_table) {
  DISTILL_ASSIGN_OR_RETURN(const AlgorithmPreference preference, PreferenceOf(options));
  const char* file = std::getenv("DISTILL_COMM_TUNING_FILE");
  const std::string path = options.tuning_file.empty() && file != nullptr ? file : options.tuning_file;
  if (!with_table || path.empty()) return CommTuning(preference);
  DISTILL_ASSIGN_OR_RETURN(const CostTable table, ReadTuningFile(path));
  return CommTuning(table, preference);
}

}  // namespace distill
