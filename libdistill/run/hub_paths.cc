#include "libdistill/run/hub_paths.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "libdistill/comm/agree.h"
#include "libdistill/comm/busy_phase.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/hub_name.h"

namespace distill {
namespace {

constexpr absl::Duration kLongestDownload = absl::Hours(48);
constexpr char kSeparator[] = "\n";  // in no path that an option can hold, and in no name

bool IsPinned(const NamedPath& path) {
  const absl::StatusOr<HubName> name = ParseHubName(path.text, path.source.kind);
  return name.ok() && IsCommit(name->repository.revision);
}

absl::Status Fetch(std::vector<NamedPath>& paths) {
  for (NamedPath& path : paths) {
    if (!IsPinned(path)) continue;
    absl::StatusOr<std::string> local = LocalPath(path.text, path.source);
    if (!local.ok()) return Annotate(local.status(), path.option);
    path.text = *std::move(local);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PinOnAllRanks(RunContext& run, std::vector<NamedPath>& paths) {
  std::vector<std::string> texts;
  DISTILL_RETURN_IF_ERROR(OnRank0(run.communicator(), "looking up names of the hub", [&]() -> absl::Status {
    for (const NamedPath& path : paths) {
      absl::StatusOr<std::string> pinned = PinnedPath(path.text, path.source);
      if (!pinned.ok()) return Annotate(pinned.status(), path.option);
      texts.push_back(*std::move(pinned));
    }
    return absl::OkStatus();
  }));
  DISTILL_ASSIGN_OR_RETURN(const std::string all, BroadcastBytes(run.communicator(), absl::StrJoin(texts, kSeparator)));
  texts = absl::StrSplit(all, kSeparator);
  for (size_t i = 0; i < std::min(paths.size(), texts.size()); ++i) paths[i].text = texts[i];
  return absl::OkStatus();
}

absl::Status FetchOnEachHost(RunContext& run, std::vector<NamedPath>& paths) {
  if (std::none_of(paths.begin(), paths.end(), IsPinned)) return absl::OkStatus();
  absl::Status mine;
  if (run.world().local_rank == 0) {
    const BusyPhase phase(run.communicator(), "downloading from the hub", kLongestDownload);
    mine = Fetch(paths);
  }
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), mine));
  // What another rank of this host has fetched is in the cache.
  return Agree(run.communicator(), run.world().local_rank == 0 ? absl::OkStatus() : Fetch(paths));
}

}  // namespace distill
