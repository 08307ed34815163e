#include "libdistill/store/hub_answer.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace distill {

using nlohmann::json;

absl::StatusOr<json> ParseHubAnswer(absl::string_view what, const HttpResponse& answer) {
  json value = json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (value.is_object()) return value;
  return absl::InternalError(
      absl::StrCat("cannot ", what, ": the hub's answer is no JSON object: ", answer.body.substr(0, 200)));
}

std::string TextIn(const json& value, const char* name) {
  const auto found = value.find(name);
  return found != value.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace distill
