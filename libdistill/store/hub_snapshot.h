// A repository of the hub as a local folder: out of the cache (hub_cache.h) where it is there, else downloaded into it.
//
//   DISTILL_ASSIGN_OR_RETURN(const std::string commit, FindHubCommit(hub, repository));
//   DISTILL_ASSIGN_OR_RETURN(const HubSnapshot snapshot, FetchHubSnapshot(hub, repository, {HubContents::kModel}));
//   LoadDecoder(snapshot.folder, ...);
//
// Several processes may do so at a time: one downloads a file, the others wait for it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/store/hub_client.h"
#include "libdistill/store/hub_listing.h"

namespace distill {

struct HubSnapshot {
  std::string folder;              // of the commit, with the files below it under their own paths
  std::string commit;              // 40 hexadecimal digits
  std::vector<std::string> files;  // those that were selected, as paths in it; sorted
  std::string rows;                // of rows: HubChoice's
};

// The commit that repository.revision is now. Where the hub cannot be asked (offline, no network, no permission), the
// one that it was when it was last asked. Blocks. NotFound, PermissionDenied, Unavailable, DeadlineExceeded as
// HubClient::Send; FailedPrecondition: offline, and nothing is in the cache.
[[nodiscard]] absl::StatusOr<std::string> FindHubCommit(HubClient& hub, const HubRepository& repository);

// Fetches what is selected of the commit that FindHubCommit gives and is not in the cache, or has another size there;
// of a data set its card before all, which says what is to be selected (hub_configs.h). Where the card is not to be
// had, or makes no sense, a warning says so, and files are selected by their names.
// What is optional (IsOptional) is left out where it is not to be had. Blocks, for hours where the
// network is slow; progress is logged. Beside errors of those: NotFound, InvalidArgument of SelectHubFiles;
// ResourceExhausted: the disk is too small, said before anything is fetched, or full; DataLoss: a wrong hash, or, where
// nothing may be asked for, a file of the cache with another size than the listing says.
[[nodiscard]] absl::StatusOr<HubSnapshot> FetchHubSnapshot(HubClient& hub, const HubRepository& repository,
                                                           const HubSelection& selection);

}  // namespace distill
