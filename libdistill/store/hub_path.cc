#include "libdistill/store/hub_path.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/store/hub_name.h"
#include "libdistill/store/hub_settings.h"
#include "libdistill/store/hub_snapshot.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

// None: it is a path, or it may be one that is not there, of which whoever opens it says more.
absl::StatusOr<std::optional<HubName>> NameOf(const std::string& text, const HubSource& source) {
  const bool is_url = absl::StartsWith(text, "hf://");
  if (!is_url && (text.empty() || IsRemote(text) || FileExists(text) || FolderExists(text) || IsPipe(text))) {
    return std::nullopt;
  }
  absl::StatusOr<HubName> name = ParseHubName(text, source.kind);
  if (!name.ok()) {
    if (is_url) return Annotate(name.status(), text);
    return std::nullopt;
  }
  if (name->has_revision || source.revision.empty()) return *std::move(name);
  DISTILL_RETURN_IF_ERROR(Annotate(CheckRevision(source.revision), text));
  name->repository.revision = source.revision;
  return *std::move(name);
}

absl::StatusOr<HubClient*> Connect(std::optional<HubClient>& hub) {
  DISTILL_ASSIGN_OR_RETURN(HubSettings settings, ReadHubSettings());
  hub.emplace(std::move(settings), CurrentStoreOptions(), CountersOfStores());
  return &*hub;
}

// Who mistypes a path is told of it before all.
absl::Status BothWereTried(const absl::Status& status, const HubName& name) {
  if (status.ok() || name.is_url) return status;
  return Annotate(
      status, absl::StrCat("no file or folder here is called ", name.repository.name, ", and as a name of the hub"));
}

}  // namespace

absl::StatusOr<std::string> PinnedPath(const std::string& text, const HubSource& source) {
  DISTILL_ASSIGN_OR_RETURN(const std::optional<HubName> name, NameOf(text, source));
  if (!name) return text;
  std::optional<HubClient> connection;
  DISTILL_ASSIGN_OR_RETURN(HubClient* const hub, Connect(connection));
  const absl::StatusOr<std::string> commit = FindHubCommit(*hub, name->repository);
  if (!commit.ok()) return BothWereTried(commit.status(), *name);
  return TextOf(*name, *commit);
}

absl::StatusOr<std::string> LocalPath(const std::string& text, const HubSource& source) {
  DISTILL_ASSIGN_OR_RETURN(const std::optional<HubName> name, NameOf(text, source));
  if (!name) return text;
  std::optional<HubClient> connection;
  DISTILL_ASSIGN_OR_RETURN(HubClient* const hub, Connect(connection));
  HubSelection selection = source.selection;
  selection.folder = name->folder;
  const absl::StatusOr<HubSnapshot> snapshot = FetchHubSnapshot(*hub, name->repository, selection);
  if (!snapshot.ok()) return BothWereTried(snapshot.status(), *name);
  if (selection.contents != HubContents::kRows) return snapshot->folder;
  return snapshot->rows.empty() ? snapshot->folder : JoinPath(snapshot->folder, snapshot->rows);
}

}  // namespace distill
