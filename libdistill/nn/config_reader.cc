#include "libdistill/nn/config_reader.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/strict_json.h"

namespace distill {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 16;
constexpr int64_t kMaxSize = int64_t{1} << 30;  // products of two still fit

}  // namespace

absl::StatusOr<json> ParseConfigObject(const std::string& text) {
  DISTILL_RETURN_IF_ERROR(CheckJson(text, kMaxDepth));
  json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return absl::DataLossError("no JSON object");
  return document;
}

std::string Shown(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 80);
}

absl::Status Refuse(absl::string_view field, const json& value, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat("\"", field, "\": ", Shown(value), " is not supported; ", reason));
}

absl::StatusOr<std::string> ReadModelType(const json& document, absl::Span<const absl::string_view> families) {
  const std::string supported =
      absl::StrCat("supported are \"", absl::StrJoin(families.first(families.size() - 1), "\", \""), "\" and \"",
                   families.back(), "\"");
  const auto type = document.find("model_type");
  if (type == document.end() || !type->is_string()) {
    return absl::InvalidArgumentError(absl::StrCat("no \"model_type\"; ", supported));
  }
  const std::string name = type->get<std::string>();
  if (absl::c_linear_search(families, name)) return name;
  return Refuse("model_type", *type, supported);
}

const json* ConfigReader::Find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void ConfigReader::Size(const char* name, int64_t& target) {
  const json* value = Find(name);
  if (value == nullptr) {
    if (target == 0) Fail(absl::StrCat("no \"", name, "\""));
  } else if (!value->is_number_integer() || value->get<int64_t>() <= 0 || value->get<int64_t>() > kMaxSize) {
    Fail(absl::StrCat("\"", name, "\" must be a positive integer of usual size, not ", Shown(*value)));
  } else {
    target = value->get<int64_t>();
  }
}

void ConfigReader::Count(const char* name, int64_t& target) {
  const json* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_number_integer() || value->get<int64_t>() < 0 || value->get<int64_t>() > kMaxSize) {
    return Fail(absl::StrCat("\"", name, "\" must be an integer of usual size, at least 0, not ", Shown(*value)));
  }
  target = value->get<int64_t>();
}

void ConfigReader::Counts(const char* name, std::vector<int64_t>& targets) {
  const json* value = Find(name);
  if (value == nullptr) return;
  const auto is_count = [](const json& item) { return item.is_number_unsigned() && item.get<int64_t>() <= kMaxSize; };
  if (!value->is_array() || !absl::c_all_of(*value, is_count)) {
    return Fail(absl::StrCat("\"", name, "\" must be a list of integers of at least 0, not ", Shown(*value)));
  }
  targets = value->get<std::vector<int64_t>>();
}

void ConfigReader::NumberThat(const char* name, bool (*fits)(double value), const char* what, double& target) {
  const json* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_number() || !fits(value->get<double>())) {
    return Fail(absl::StrCat("\"", name, "\" must be ", what, ", not ", Shown(*value)));
  }
  target = value->get<double>();
}

void ConfigReader::Number(const char* name, double& target) {
  const auto fits = [](double value) { return value > 0 && std::isfinite(value); };
  NumberThat(name, fits, "a positive number", target);
}

void ConfigReader::NumberOrNull(const char* name, double& target) {
  const auto field = object_.find(name);
  if (field != object_.end() && field->is_null()) target = 0;
  Number(name, target);
}

void ConfigReader::Probability(const char* name, double& target) {
  const auto fits = [](double value) { return value >= 0 && value <= 1; };
  NumberThat(name, fits, "a number within 0 and 1", target);
}

void ConfigReader::RequiredNumber(const char* name, double& target) {
  if (Find(name) == nullptr) return Fail(absl::StrCat("no \"", name, "\""));
  Number(name, target);
}

void ConfigReader::Bool(const char* name, bool& target) {
  const json* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_boolean()) return Fail(absl::StrCat("\"", name, "\" must be true or false, not ", Shown(*value)));
  target = value->get<bool>();
}

void ConfigReader::Multiple(const char* name, int64_t value, const char* of_name, int64_t of) {
  if (value % of == 0) return;
  Fail(absl::StrCat("\"", name, "\": ", value, " is no multiple of \"", of_name, "\": ", of));
}

void ConfigReader::Fail(const std::string& message) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(message);
}

absl::Status RefuseOtherComputations(const json& document, const FamilyFields& fields) {
  for (const auto& [neutral, names] : fields.refused) {
    for (const absl::string_view name : absl::StrSplit(names, ' ')) {
      const auto found = document.find(std::string(name));
      if (found == document.end() || found->is_null() || IsAmong(name, fields.of_family)) continue;
      if (!neutral.empty() && *found == json::parse(neutral)) continue;
      return Refuse(name, *found,
                    neutral.empty() ? "remove the field or use another model" : absl::StrCat("only ", neutral, " is"));
    }
  }
  return absl::OkStatus();
}

void WarnOfUnknownFields(const json& document, const FamilyFields& fields, const std::string& name) {
  for (const auto& [key, value] : document.items()) {
    const auto is_refused = [&key = key](const RefusedFields& refused) { return IsAmong(key, refused.names); };
    const bool known = IsBookkeepingField(key) || IsAmong(key, fields.harmless) || IsAmong(key, fields.of_family) ||
                       absl::c_any_of(fields.refused, is_refused);
    if (!known) LogWarning(absl::StrCat(name, ": the unknown field \"", key, "\" is passed over"));
  }
}

absl::Status ReadPaddingId(const json& document, int64_t vocab_size, int64_t& id) {
  const auto field = document.find("pad_token_id");
  if (field == document.end() && id >= vocab_size) id = -1;  // a family's default, in a smaller vocabulary
  if (field == document.end()) return absl::OkStatus();
  if (field->is_null()) {
    id = -1;
    return absl::OkStatus();
  }
  if (!field->is_number_integer() || field->get<int64_t>() < -vocab_size || field->get<int64_t>() >= vocab_size) {
    return Refuse("pad_token_id", *field, absl::StrCat("an id below the vocab_size of ", vocab_size, ", or null, is"));
  }
  id = field->get<int64_t>() + (field->get<int64_t>() < 0 ? vocab_size : 0);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ConfigJsonWithDType(const std::string& text, const std::string& dtype) {
  auto document = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return absl::InvalidArgumentError("the model has no config.json to save");
  for (const char* name : {"quantization_config", "compression_config"}) document.erase(name);  // numbers are saved
  if (document.contains("torch_dtype")) document["torch_dtype"] = dtype;
  if (document.contains("dtype")) document["dtype"] = dtype;
  if (!document.contains("torch_dtype") && !document.contains("dtype")) {
    document[document.contains("rope_parameters") ? "dtype" : "torch_dtype"] = dtype;
  }
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace distill
