// What the hub says of a repository that is to be written to: what it is called now, and what its branch holds.
//
//   DISTILL_ASSIGN_OR_RETURN(repository.name, LookUpName(hub, repository));
//   DISTILL_ASSIGN_OR_RETURN(const HubHead head, LookUpBranch(hub, repository));
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/store/hub_client.h"

namespace distill {

struct HubHead {
  std::string commit;              // of 40 letters: the branch's newest
  std::vector<std::string> files;  // their paths
};

// The repository's name, which is another one where it was renamed: what is read by the old name is redirected, what is
// written is not. Blocks. NotFound, PermissionDenied: there is none, or it may not be seen. Errors of HubClient::Send.
[[nodiscard]] absl::StatusOr<std::string> LookUpName(HubClient& hub, const HubRepository& repository);

// Blocks. NotFound: no repository, or no such branch. Errors of HubClient::Send.
[[nodiscard]] absl::StatusOr<HubHead> LookUpBranch(HubClient& hub, const HubRepository& repository);

}  // namespace distill
