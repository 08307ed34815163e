// What ranks tell one another after an evaluation, as bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace distill {

// By sample id. ResourceExhausted: more than a message can have (2 GiB).
[[nodiscard]] absl::StatusOr<std::string> Serialize(const std::map<int64_t, std::string>& predictions);
// By name.
std::string Serialize(const std::map<std::string, double>& metrics);
// DataLoss: bytes that are no such message.
[[nodiscard]] absl::StatusOr<std::map<int64_t, std::string>> ParsePredictions(const std::string& bytes);
[[nodiscard]] absl::StatusOr<std::map<std::string, double>> ParseMetrics(const std::string& bytes);

}  // namespace distill
