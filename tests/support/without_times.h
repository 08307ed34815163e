// Records of metrics.jsonl without what differs from run to run.
#pragma once

#include <regex>
#include <string>

namespace distill::testing {

// The text of metrics.jsonl without the `time` of its records; one without a time stays as it is.
inline std::string WithoutTimes(const std::string& records) {
  return std::regex_replace(records, std::regex(R"re(,"time":\d+\.\d{3}\})re"), "}");
}

}  // namespace distill::testing
