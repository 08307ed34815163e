#include "examples/squad/invocation.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/json_value.h"

namespace distill {
namespace {

constexpr char kForm[] = R"(the body must be {"inputs": {"question": "...", "context": "..."}})";

absl::StatusOr<std::string> TextIn(const JsonValue& inputs, const char* name) {
  const JsonValue* value = inputs.Find(name);
  if (value == nullptr) return absl::InvalidArgumentError(absl::StrCat("'", name, "' is missing: ", kForm));
  if (value->kind == JsonValue::Kind::kString) return value->text;
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' is no string: ", kForm));
}

// Silently leaving out what somebody asks for would be a wrong answer.
absl::Status KnowsAll(const JsonValue& object, std::initializer_list<const char*> known) {
  for (const auto& [name, value] : object.members) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not known: ", kForm));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AskedQuestion> ParseInvocation(const std::string& body) {
  const absl::StatusOr<JsonValue> parsed = ParseJson(body);
  if (!parsed.ok()) return absl::InvalidArgumentError(absl::StrCat("this is not valid JSON: ", kForm));
  const JsonValue& root = *parsed;
  if (root.kind != JsonValue::Kind::kObject) return absl::InvalidArgumentError(kForm);
  const JsonValue* inputs = root.Find("inputs");
  if (inputs != nullptr) DISTILL_RETURN_IF_ERROR(KnowsAll(root, {"inputs"}));
  if (inputs == nullptr) inputs = &root;
  if (inputs->kind != JsonValue::Kind::kObject) {
    return absl::InvalidArgumentError(absl::StrCat("'inputs' is no object: ", kForm));
  }
  DISTILL_RETURN_IF_ERROR(KnowsAll(*inputs, {"question", "context"}));
  AskedQuestion asked;
  DISTILL_ASSIGN_OR_RETURN(asked.question, TextIn(*inputs, "question"));
  DISTILL_ASSIGN_OR_RETURN(asked.context, TextIn(*inputs, "context"));
  return asked;
}

std::string InvocationAnswer(const SpanAnswer& answer) {
  const nlohmann::ordered_json json = {
      {"score", answer.score}, {"start", answer.start}, {"end", answer.end}, {"answer", answer.text}};
  return json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace);
}

JsonReply ReplyWith(const absl::StatusOr<SpanAnswer>& answer) {
  if (answer.ok()) return {200, InvocationAnswer(*answer)};
  const int status = absl::IsInvalidArgument(answer.status())    ? 400
                     : absl::IsDeadlineExceeded(answer.status()) ? 503
                                                                 : 500;
  return ErrorReply(status, std::string(answer.status().message()));
}

}  // namespace distill
