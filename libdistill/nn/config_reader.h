// What reading the config.json of every model family has in common; inside nn/ only.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libdistill/nn/config_fields.h"

namespace distill {

constexpr int64_t kMaxLayers = 4096;  // a config.json that asks for more is damaged

// DataLoss: no JSON object, or one that is nested too deep.
[[nodiscard]] absl::StatusOr<nlohmann::json> ParseConfigObject(const std::string& text);

// InvalidArgument: "field": value is not supported; reason.
absl::Status Refuse(absl::string_view field, const nlohmann::json& value, absl::string_view reason);
// The value as it is shown in messages.
std::string Shown(const nlohmann::json& value);

// "model_type", which must be one of `families`, of which there are at least two.
[[nodiscard]] absl::StatusOr<std::string> ReadModelType(const nlohmann::json& document,
                                                        absl::Span<const absl::string_view> families);

// Reads fields of one object; the first error is kept and later reads do nothing.
class ConfigReader {
 public:
  explicit ConfigReader(const nlohmann::json& object) : object_(object) {}

  // Null where the field is missing or null.
  const nlohmann::json* Find(const char* name) const;
  // A missing one is an error where the target is 0.
  void Size(const char* name, int64_t& target);
  void Count(const char* name, int64_t& target);                 // at least 0
  void Counts(const char* name, std::vector<int64_t>& targets);  // a list of them
  void Number(const char* name, double& target);
  void NumberOrNull(const char* name, double& target);  // null is 0, a missing one leaves the target
  void Probability(const char* name, double& target);
  void RequiredNumber(const char* name, double& target);
  void Bool(const char* name, bool& target);
  void Multiple(const char* name, int64_t value, const char* of_name, int64_t of);  // fails where it is none
  void Fail(const std::string& message);
  const absl::Status& status() const { return status_; }

 private:
  void NumberThat(const char* name, bool (*fits)(double value), const char* what, double& target);

  const nlohmann::json& object_;
  absl::Status status_;
};

// InvalidArgument: a field that the family's models do not compute with. Numbers compare as numbers: 1 and 1.0 are the
// same.
[[nodiscard]] absl::Status RefuseOtherComputations(const nlohmann::json& document, const FamilyFields& fields);
void WarnOfUnknownFields(const nlohmann::json& document, const FamilyFields& fields, const std::string& name);
// "pad_token_id", as torch's embedding counts it: from the end where it is negative. `id` stays where there is none.
[[nodiscard]] absl::Status ReadPaddingId(const nlohmann::json& document, int64_t vocab_size, int64_t& id);

// The original text with the type of the saved weights ("float32", "bfloat16") in the key that the original used.
[[nodiscard]] absl::StatusOr<std::string> ConfigJsonWithDType(const std::string& json, const std::string& dtype);

}  // namespace distill
