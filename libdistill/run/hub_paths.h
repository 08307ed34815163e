// Models and data sets that options name (store/hub_path.h), for the ranks of a job: all take the same commit, and each
// host downloads once.
//
//   std::vector<NamedPath> paths = {{"teacher_model", options.teacher_model, {.kind = HubKind::kModel}}};
//   DISTILL_RETURN_IF_ERROR(PinOnAllRanks(run, paths));      // the name with its commit: to keep in a config
//   DISTILL_RETURN_IF_ERROR(FetchOnEachHost(run, paths));    // a local folder
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libdistill/run/run.h"
#include "libdistill/store/hub_path.h"

namespace distill {

struct NamedPath {
  std::string option;  // that names it, for messages
  std::string text;    // a path, or a name of the hub; "" is left alone
  HubSource source;
};

// Every rank must call it, with equal paths (rank 0's count): rank 0 looks up what each text is, and every rank's is
// then PinnedPath's. Blocks. After an error, which every rank gets, some may be pinned.
[[nodiscard]] absl::Status PinOnAllRanks(RunContext& run, std::vector<NamedPath>& paths);

// Every rank must call it, after PinOnAllRanks: texts that are pinned names become the folders of LocalPath; one rank
// of each host downloads, while the others wait, as long as it takes. Other texts stay, also on hosts that have no such
// path. Blocks; every rank gets the error of any.
[[nodiscard]] absl::Status FetchOnEachHost(RunContext& run, std::vector<NamedPath>& paths);

}  // namespace distill
