#include "libdistill/store/hub_lookup.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/hub_answer.h"
#include "libdistill/store/hub_name.h"

namespace distill {
namespace {

using nlohmann::json;

constexpr int kMostLookupRedirects = 4;

// `below`: of the repository's own page of the interface.
absl::StatusOr<json> LookUp(HubClient& hub, const HubRepository& repository, const std::string& below) {
  HubRequest request{.action = "look up", .repository = repository};
  request.path = absl::StrCat("/api/", repository.Plural(), "/", repository.name, below);
  request.max_redirects = kMostLookupRedirects;
  DISTILL_ASSIGN_OR_RETURN(const HttpResponse answer, hub.Send(request));
  return ParseHubAnswer(absl::StrCat("look up ", repository.name), answer);
}

}  // namespace

absl::StatusOr<std::string> LookUpName(HubClient& hub, const HubRepository& repository) {
  DISTILL_ASSIGN_OR_RETURN(const json about, LookUp(hub, repository, ""));
  const std::string name = TextIn(about, "id");
  if (!IsHubName(name) || name == repository.name) return repository.name;
  LogInfo(absl::StrCat(repository.name, " is called ", name, " on the hub now"));
  return name;
}

absl::StatusOr<HubHead> LookUpBranch(HubClient& hub, const HubRepository& repository) {
  DISTILL_ASSIGN_OR_RETURN(
      const json about,
      LookUp(hub, repository, absl::StrCat("/revision/", PercentEncode(repository.revision, /*keep_slashes=*/false))));
  HubHead head{TextIn(about, "sha"), {}};
  const auto files = about.find("siblings");
  if (files == about.end() || !files->is_array()) return head;
  for (const json& file : *files) {
    if (std::string path = TextIn(file, "rfilename"); !path.empty()) head.files.push_back(std::move(path));
  }
  return head;
}

}  // namespace distill
