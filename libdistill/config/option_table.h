// The table of settings: one row each, from which come the config file's keys, the command line's options and --help.
#pragma once

#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libdistill/config/llm_config.h"

namespace distill {

using OptionField = std::variant<std::string LlmConfig::*, bool LlmConfig::*, int64_t LlmConfig::*,
                                 uint64_t LlmConfig::*, double LlmConfig::*>;

struct OptionLimits {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_is_excluded = false;
  std::vector<std::string> choices = {};
  bool is_path = false;
  const char* unsupported = nullptr;  // why any value but the default is refused
};

struct Option {
  const char* name;
  OptionField field;
  const char* group;
  const char* help;
  OptionLimits limits = {};
};

const std::vector<Option>& Options();
const Option* FindOption(absl::string_view name);

// "a number", "true or false", ...
const char* KindOf(const Option& option);
std::string GetOption(const LlmConfig& config, const Option& option);
// InvalidArgument says what was expected and what came; the caller adds where.
[[nodiscard]] absl::Status SetOption(LlmConfig& config, const Option& option, const std::string& text);

// InvalidArgument: "unknown WHAT 'name'; did you mean 'nearest'?", or what another program's name is called here
// (foreign_names.h). `name` has the dashes that the known ones have.
absl::Status UnknownName(absl::string_view what, absl::string_view name, const std::vector<std::string>& known);

}  // namespace distill
