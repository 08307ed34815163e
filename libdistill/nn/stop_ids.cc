#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/generate.h"
#include "libdistill/store/files.h"
#include "libdistill/store/strict_json.h"

namespace distill {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 16;

absl::StatusOr<std::vector<int32_t>> ParseStopIds(const std::string& text) {
  DISTILL_RETURN_IF_ERROR(CheckJson(text, kMaxDepth));
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return absl::DataLossError("no JSON object");
  const json value = document.value("eos_token_id", json());
  std::vector<int32_t> ids;
  if (value.is_null()) return ids;
  for (const json& id : value.is_array() ? value : json::array({value})) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX) {
      return absl::InvalidArgumentError("\"eos_token_id\" must be a token's id or a list of them");
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> ReadStopIds(const std::string& folder) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::string path = JoinPath(folder, name);
    if (!FileExists(path)) continue;
    DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    absl::StatusOr<std::vector<int32_t>> ids = ParseStopIds(text);
    if (!ids.ok()) return Annotate(ids.status(), path);
    if (!ids->empty()) return ids;
  }
  return std::vector<int32_t>();
}

}  // namespace distill
