#include "libdistill/store/hub_settings.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/home.h"
#include "libdistill/store/environment_text.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

// The first of these variables that is set; else `otherwise`.
std::string PathOf(std::initializer_list<const char*> names, const std::string& otherwise) {
  for (const char* name : names) {
    if (const std::string path = EnvironmentText(name); !path.empty()) return ExpandHome(path);
  }
  return otherwise;
}

std::string HomeOfHub() {
  const std::string caches = PathOf({"XDG_CACHE_HOME"}, ExpandHome("~/.cache"));
  return PathOf({"HF_HOME"}, JoinPath(caches, "huggingface"));
}

std::string FindToken(const std::string& home) {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    const std::string token(absl::StripAsciiWhitespace(EnvironmentText(name)));
    if (!token.empty()) return token;
  }
  const absl::StatusOr<std::string> kept = ReadFile(PathOf({"HF_TOKEN_PATH"}, JoinPath(home, "token")));
  return kept.ok() ? std::string(absl::StripAsciiWhitespace(*kept)) : "";
}

}  // namespace

absl::StatusOr<HubSettings> ReadHubSettings() {
  HubSettings settings;
  if (const std::string endpoint = EnvironmentText("HF_ENDPOINT"); !endpoint.empty()) settings.endpoint = endpoint;
  while (absl::EndsWith(settings.endpoint, "/")) settings.endpoint.pop_back();
  if (!absl::StartsWith(settings.endpoint, "https://") && !absl::StartsWith(settings.endpoint, "http://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("HF_ENDPOINT is '", settings.endpoint, "'; it begins with https:// or http://"));
  }
  const std::string home = HomeOfHub();
  settings.token = FindToken(home);
  settings.is_offline = EnvironmentFlag("HF_HUB_OFFLINE") || EnvironmentFlag("TRANSFORMERS_OFFLINE");
  settings.cache_folder = PathOf({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}, JoinPath(home, "hub"));
  return settings;
}

}  // namespace distill
