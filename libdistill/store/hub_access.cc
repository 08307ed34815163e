#include "libdistill/store/hub_access.h"

#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/hub_lookup.h"

namespace distill {
namespace {

using nlohmann::json;

// The value below these keys; null where there is none.
const json& At(const json& value, std::initializer_list<const char*> keys) {
  static const auto* const none = new json;
  const json* at = &value;
  for (const char* key : keys) {
    const auto found = at->is_object() ? at->find(key) : at->end();
    if (!at->is_object() || found == at->end()) return *none;
    at = &*found;
  }
  return *at;
}

std::string TextAt(const json& value, std::initializer_list<const char*> keys) {
  const json& at = At(value, keys);
  return at.is_string() ? at.get<std::string>() : "";
}

std::string OwnerOf(const HubRepository& repository) { return repository.name.substr(0, repository.name.find('/')); }

absl::Status CheckMember(const json& user, const HubRepository& repository) {
  const std::string owner = OwnerOf(repository), name = TextAt(user, {"name"});
  if (owner == name) return absl::OkStatus();
  for (const json& org : At(user, {"orgs"})) {
    if (TextAt(org, {"name"}) != owner) continue;
    if (TextAt(org, {"roleInOrg"}) != "read") return absl::OkStatus();
    return absl::PermissionDeniedError(absl::StrCat("user ", name,
                                                    ", to whose token HF_TOKEN belongs, may only read in ", owner,
                                                    ": ask its administrators for the role to write"));
  }
  return absl::PermissionDeniedError(absl::StrCat("HF_TOKEN belongs to user ", name, ", who is no member of ", owner,
                                                  ": publish to ", name, "/..., or take a token of a member"));
}

// A token of chosen permissions names for whom, or for which repository, it has each.
absl::Status CheckFineGrained(const json& user, const HubRepository& repository) {
  const json& scopes = At(user, {"auth", "accessToken", "fineGrained", "scoped"});
  if (!scopes.is_array()) return absl::OkStatus();
  for (const json& scope : scopes) {
    const std::string of = TextAt(scope, {"entity", "name"});
    if (!of.empty() && of != OwnerOf(repository) && of != repository.name) continue;
    const json& permissions = At(scope, {"permissions"});
    if (std::find(permissions.begin(), permissions.end(), "repo.write") != permissions.end()) return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat("the token of HF_TOKEN has no permission to write to repositories of ", OwnerOf(repository),
                   ": give it one in its settings"));
}

absl::Status CheckUser(const json& user, const HubRepository& repository) {
  const std::string role = TextAt(user, {"auth", "accessToken", "role"});
  if (role == "read")
    return absl::PermissionDeniedError("the token of HF_TOKEN may only read: take one that may write");
  if (role == "fineGrained") return CheckFineGrained(user, repository);
  return CheckMember(user, repository);
}

}  // namespace

absl::Status CheckMayPublish(HubClient& hub, const HubRepository& repository) {
  const std::string what = absl::StrCat("cannot publish to ", repository.name), &endpoint = hub.settings().endpoint;
  if (hub.settings().token.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat(what, ": there is no token: set HF_TOKEN, or log in with `hf auth login`; tokens are made at ",
                     endpoint, "/settings/tokens"));
  }
  if (hub.settings().is_offline) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": HF_HUB_OFFLINE is set; unset it, or leave hub_location out"));
  }
  HubRequest request{.action = "publish to", .repository = repository, .path = "/api/whoami-v2"};
  request.also_fine = {401};
  DISTILL_ASSIGN_OR_RETURN(const HttpResponse answer, hub.Send(request));
  if (answer.status == 401) {
    return absl::PermissionDeniedError(absl::StrCat(what, ": ", endpoint, " does not know the token (HF_TOKEN, or the ",
                                                    "file of `hf auth login`): make one at ", endpoint,
                                                    "/settings/tokens"));
  }
  HubRepository now = repository;
  const absl::StatusOr<std::string> name = LookUpName(hub, repository);
  if (name.ok()) now.name = *name;
  // One that is not there is made when it is published; PermissionDenied stands for that, too.
  if (!name.ok() && !absl::IsNotFound(name.status()) && !absl::IsPermissionDenied(name.status())) return name.status();
  const json user = json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (!user.is_object()) return absl::OkStatus();
  return Annotate(CheckUser(user, now), what);
}

}  // namespace distill
