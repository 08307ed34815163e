#include "libdistill/config/llm_config.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libdistill/config/option_table.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

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

absl::Status RequireValue(const char* name, const std::string& value) {
  if (!value.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is missing: give it in the config file or as --", name));
}

}  // namespace

ConfigFields ResolvedFields(const LlmConfig& config) {
  ConfigFields fields;
  for (const Option& option : Options()) fields.emplace_back(option.name, GetOption(config, option));
  return fields;
}

std::string FieldsToYaml(const ConfigFields& fields) {
  std::string text;
  for (const auto& [name, value] : fields) absl::StrAppend(&text, name, ": ", YamlScalar(value), "\n");
  return text;
}

absl::Status CheckModels(const LlmConfig& config) {
  DISTILL_RETURN_IF_ERROR(RequireValue("student_model", config.student_model));
  if (config.teacher_model.empty() && config.alpha > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "alpha is ", config.alpha, ", but there is no teacher_model; set alpha to 0 to train on labels alone"));
  }
  if (config.bf16 && config.fp16) {
    return absl::InvalidArgumentError("bf16 and fp16 are both true: choose one of them");
  }
  return absl::OkStatus();
}

absl::Status CheckTogether(const LlmConfig& config) {
  DISTILL_RETURN_IF_ERROR(RequireValue("student_model", config.student_model));
  DISTILL_RETURN_IF_ERROR(RequireValue("dataset_name", config.dataset_name));
  DISTILL_RETURN_IF_ERROR(RequireValue("output_dir", config.output_dir));
  DISTILL_RETURN_IF_ERROR(CheckModels(config));
  if (config.eval_steps > 0 && config.eval_dataset_name.empty()) {
    return absl::InvalidArgumentError("eval_steps needs eval_dataset_name, the held-out data");
  }
  return absl::OkStatus();
}

}  // namespace distill
