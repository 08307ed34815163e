#include "libdistill/nn/config_reader.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
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

void ConfigReader::Number(const char* name, double& target) {
  const json* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_number() || !(value->get<double>() > 0) || !std::isfinite(value->get<double>())) {
    return Fail(absl::StrCat("\"", name, "\" must be a positive number, not ", Shown(*value)));
  }
  target = value->get<double>();
}

void ConfigReader::Probability(const char* name, double& target) {
  const json* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_number() || !(value->get<double>() >= 0 && value->get<double>() <= 1)) {
    return Fail(absl::StrCat("\"", name, "\" must be a number within 0 and 1, not ", Shown(*value)));
  }
  target = value->get<double>();
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

void ConfigReader::Fail(const std::string& message) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(message);
}

absl::Status RefuseOtherComputations(const json& document, const FamilyFields& fields) {
  for (const RefusedField& field : fields.refused) {
    const auto found = document.find(std::string(field.name));
    if (found == document.end() || found->is_null()) continue;
    if (!field.neutral.empty() && *found == json::parse(field.neutral.begin(), field.neutral.end())) continue;
    return Refuse(
        field.name, *found,
        field.neutral.empty() ? "remove the field or use another model" : absl::StrCat("only ", field.neutral, " is"));
  }
  return absl::OkStatus();
}

void WarnOfUnknownFields(const json& document, const FamilyFields& fields, const std::string& name) {
  for (const auto& [key, value] : document.items()) {
    const auto has_name = [&key = key](const RefusedField& field) { return field.name == key; };
    const bool known = IsBookkeepingField(key) ||
                       std::find(fields.harmless.begin(), fields.harmless.end(), key) != fields.harmless.end() ||
                       std::any_of(fields.refused.begin(), fields.refused.end(), has_name);
    if (!known) LogWarning(absl::StrCat(name, ": the unknown field \"", key, "\" is passed over"));
  }
}

absl::Status ReadPaddingId(const json& document, int64_t vocab_size, int64_t& id) {
  const auto field = document.find("pad_token_id");
  if (field == document.end() || field->is_null()) return absl::OkStatus();
  if (!field->is_number_integer() || field->get<int64_t>() < -vocab_size || field->get<int64_t>() >= vocab_size) {
    return Refuse("pad_token_id", *field, absl::StrCat("an id below the vocab_size of ", vocab_size, ", or null, is"));
  }
  id = field->get<int64_t>() + (field->get<int64_t>() < 0 ? vocab_size : 0);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ConfigJsonWithDType(const std::string& text, const std::string& dtype) {
  auto document = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return absl::InvalidArgumentError("the model has no config.json to save");
  if (document.contains("torch_dtype")) document["torch_dtype"] = dtype;
  if (document.contains("dtype")) document["dtype"] = dtype;
  if (!document.contains("torch_dtype") && !document.contains("dtype")) {
    document[document.contains("rope_parameters") ? "dtype" : "torch_dtype"] = dtype;
  }
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace distill
