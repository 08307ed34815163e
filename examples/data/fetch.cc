#include "examples/data/fetch.h"

#include <cstdio>

#include "libdistill/core/status_macros.h"
#include "libdistill/store/hub_name.h"
#include "libdistill/store/hub_path.h"
#include "libdistill/store/hub_settings.h"
#include "libdistill/store/hub_snapshot.h"
#include "libdistill/store/store.h"

namespace distill {

absl::Status FetchRepository(const std::string& text, const DataOptions& options) {
  absl::StatusOr<HubName> name = ParseHubName(text, options.repo_type);
  if (!name.ok()) return Annotate(name.status(), text);
  if (!options.revision.empty() && !name->has_revision) {
    DISTILL_RETURN_IF_ERROR(CheckRevision(options.revision));
    name->repository.revision = options.revision;
  }
  DISTILL_ASSIGN_OR_RETURN(HubSettings settings, ReadHubSettings());
  HubClient hub(std::move(settings), CurrentStoreOptions(), CountersOfStores());
  const bool is_model = options.repo_type == HubKind::kModel;
  DISTILL_ASSIGN_OR_RETURN(const HubSnapshot snapshot,
                           FetchHubSnapshot(hub, name->repository,
                                            {is_model ? HubContents::kModel : HubContents::kRows,
                                             is_model ? "" : options.split, name->folder}));
  std::printf("%s\n", snapshot.folder.c_str());
  return absl::OkStatus();
}

absl::StatusOr<std::string> LocalData(const std::string& text, const DataOptions& options) {
  return LocalPath(text, {HubKind::kDataset, {HubContents::kRows, options.split}, options.revision});
}

}  // namespace distill
