// Models and data sets as options name them: a path, or a name of the hub.
//
//   DISTILL_ASSIGN_OR_RETURN(const std::string folder, LocalPath("org/name", {.kind = HubKind::kModel}));
//
// A path that is there wins, as it does in transformers; s3:// is always a path. Where ranks work together, use
// run/hub_paths.h, by which they take the same commit, and each host downloads once.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "libdistill/store/hub_listing.h"

namespace distill {

struct HubSource {
  HubKind kind = HubKind::kModel;
  HubSelection selection = {};
  std::string revision = "";  // where the name has none; empty: main
};

// A name with the commit that it is now, "org/name@COMMIT"; a path, or empty text, as it is. Blocks. NotFound: neither
// a path nor a repository. Others as FindHubCommit.
[[nodiscard]] absl::StatusOr<std::string> PinnedPath(const std::string& text, const HubSource& source);

// A local folder that holds what is selected, which is fetched where it is not in the cache: of rows the folder or
// the file that they are read from. A path, or empty text, as it is. Blocks. Errors as PinnedPath and FetchHubSnapshot.
[[nodiscard]] absl::StatusOr<std::string> LocalPath(const std::string& text, const HubSource& source);

}  // namespace distill
