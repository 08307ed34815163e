#include "libdistill/store/hub_snapshot.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/file_error.h"
#include "libdistill/store/files.h"
#include "libdistill/store/hub_cache.h"
#include "libdistill/store/hub_download.h"
#include "libdistill/store/hub_name.h"

namespace distill {
namespace {

constexpr int64_t kMostCardBytes = int64_t{4} << 20;
constexpr int kLookUps = 3;  // attempts: who waits for a name that is no name should not wait for long

std::string Offline(const HubSettings& settings, const HubRepository& repository) {
  return absl::StrCat("HF_HUB_OFFLINE is set: fetch it where there is a network (distill_data fetch ", repository.name,
                      repository.kind == HubKind::kDataset ? " --repo_type dataset" : "", "), with HF_HOME on a disk ",
                      "that this machine sees, or unset HF_HUB_OFFLINE; the cache here is ", settings.cache_folder);
}

// What to do where no server answers.
absl::Status WithAdvice(const absl::Status& status, const HubRepository& repository) {
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; without a network, fetch ", repository.name,
                                   " elsewhere (distill_data fetch), copy that HF_HOME here and set HF_HUB_OFFLINE=1"));
}

// Whether what is in the cache will do instead. A revision that the hub does not know is a mistake, whatever is there.
bool IsNoAnswer(const absl::Status& status) {
  return MayHelpToRetry(status) || absl::IsFailedPrecondition(status) || absl::IsPermissionDenied(status);
}

class Fetch {
 public:
  Fetch(HubClient& hub, HubRepository at_commit, const HubSelection& selection)
      : hub_(hub),
        at_commit_(std::move(at_commit)),
        commit_(at_commit_.revision),
        selection_(selection),
        cache_(hub.settings().cache_folder, at_commit_) {}

  absl::StatusOr<HubSnapshot> Run() {
    HubSnapshot snapshot{cache_.SnapshotFolder(commit_), commit_, {}, ""};
    std::optional<std::vector<HubFile>> listing = cache_.ReadListing(commit_);
    if (!listing) {
      absl::StatusOr<std::vector<HubFile>> asked = ListHubFiles(hub_, at_commit_);
      // Programs that fetch file by file leave no listing: what they fetched is all that can be known.
      if (IsNoAnswer(asked.status()) && FolderExists(snapshot.folder)) return FromCache(std::move(snapshot));
      if (!asked.ok() && hub_.settings().is_offline) {
        return absl::FailedPreconditionError(absl::StrCat(
            at_commit_.name, " at ", commit_, " is not in the cache, and ", Offline(hub_.settings(), at_commit_)));
      }
      DISTILL_RETURN_IF_ERROR(WithAdvice(asked.status(), at_commit_));
      listing = *std::move(asked);
      const absl::Status kept = cache_.WriteListing(commit_, *listing);
      if (!kept.ok()) LogWarning(kept.message());  // a cache that may only be read, and may have all
    }
    absl::StatusOr<HubChoice> selected = SelectHubFiles(*listing, selection_, Configs(*listing));
    if (!selected.ok()) return Annotate(selected.status(), at_commit_.name);
    DISTILL_RETURN_IF_ERROR(FetchAll(selected->files));
    return Filled(std::move(snapshot), *std::move(selected));
  }

 private:
  absl::StatusOr<HubSnapshot> FromCache(HubSnapshot snapshot) const {
    std::vector<HubFile> files;
    std::error_code error;
    for (std::filesystem::recursive_directory_iterator entry(snapshot.folder, error), end; !error && entry != end;
         entry.increment(error)) {
      if (!entry->is_regular_file(error)) continue;
      files.push_back({.path = entry->path().lexically_relative(snapshot.folder).string(),
                       .size = static_cast<int64_t>(entry->file_size(error))});
    }
    if (error) return FileError("list", snapshot.folder, error.value());
    std::sort(files.begin(), files.end(), [](const HubFile& a, const HubFile& b) { return a.path < b.path; });
    absl::StatusOr<HubChoice> selected = SelectHubFiles(files, selection_, ConfigsInCache());
    if (!selected.ok()) {
      return Annotate(selected.status(), absl::StrCat(at_commit_.name, " in the cache, ", snapshot.folder));
    }
    return Filled(std::move(snapshot), *std::move(selected));
  }

  static HubSnapshot Filled(HubSnapshot snapshot, HubChoice selected) {
    for (const HubFile& file : selected.files) snapshot.files.push_back(file.path);
    std::sort(snapshot.files.begin(), snapshot.files.end());
    snapshot.rows = std::move(selected.rows);
    return snapshot;
  }

  // Of rows: what the card says of the files, as far as it is to be had.
  HubConfigs Configs(const std::vector<HubFile>& listing) {
    const auto card =
        std::find_if(listing.begin(), listing.end(), [](const HubFile& file) { return file.path == kHubCard; });
    if (selection_.contents != HubContents::kRows || card == listing.end() || card->size > kMostCardBytes) return {};
    if (!cache_.HasFile(commit_, *card) && !(hub_.settings().is_offline && !cache_.HasBlob(*card))) {
      HubProgress progress(at_commit_.name, card->size);
      if (const absl::Status status = FetchOne(*card, progress); !status.ok()) Warn(status);
    }
    return ConfigsInCache();
  }

  HubConfigs ConfigsInCache() const {
    const std::string path = JoinPath(cache_.SnapshotFolder(commit_), kHubCard);
    if (selection_.contents != HubContents::kRows || !FileExists(path)) return {};
    const absl::StatusOr<std::string> card = ReadFile(path);
    absl::StatusOr<HubConfigs> configs = card.ok() ? ConfigsOfCard(*card) : card.status();
    if (configs.ok()) return *std::move(configs);
    Warn(configs.status());
    return {};
  }

  void Warn(const absl::Status& status) const {
    LogWarning(absl::StrCat(at_commit_.name, ": ", status.message(), ": files are taken by their names"));
  }

  // Leaves those out of `files` that are not to be had and may be missing.
  absl::Status FetchAll(std::vector<HubFile>& files) {
    if (hub_.settings().is_offline) {
      std::erase_if(files, [&](const HubFile& file) { return IsOptional(file, selection_) && !IsThere(file); });
    }
    std::vector<HubFile> missing;
    int64_t bytes = 0, to_write = 0;
    for (const HubFile& file : files) {
      if (cache_.HasFile(commit_, file)) continue;
      missing.push_back(file);
      if (cache_.HasBlob(file)) continue;
      DISTILL_RETURN_IF_ERROR(TellDamage(file));
      bytes += file.size;
      to_write += file.size - SizeOf(absl::StrCat(cache_.BlobPath(file), ".incomplete"));
    }
    if (missing.empty()) return absl::OkStatus();
    if (hub_.settings().is_offline && bytes > 0) {
      return absl::FailedPreconditionError(absl::StrCat(at_commit_.name, ": ", missing.front().path, " and ",
                                                        missing.size() - 1, " other files are not in the cache, and ",
                                                        Offline(hub_.settings(), at_commit_)));
    }
    DISTILL_RETURN_IF_ERROR(CheckSpace(to_write));
    HubProgress progress(at_commit_.name, bytes);
    for (const HubFile& file : missing) {
      const absl::Status status = FetchOne(file, progress);
      if (status.ok()) continue;
      if (!IsOptional(file, selection_) || !IsNoAnswer(status)) return status;
      LogWarning(absl::StrCat(status.message(), "; it is left out"));
      std::erase_if(files, [&](const HubFile& other) { return other.path == file.path; });
    }
    if (progress.came() > 0) {
      LogInfo(absl::StrFormat("downloaded %s: %.1f MB in %.1f s", at_commit_.name,
                              static_cast<double>(progress.came()) / 1e6, absl::ToDoubleSeconds(progress.age())));
    }
    return absl::OkStatus();
  }

  bool IsThere(const HubFile& file) const { return cache_.HasFile(commit_, file) || cache_.HasBlob(file); }

  // DataLoss: it is damaged in the cache, and cannot be fetched again.
  absl::Status TellDamage(const HubFile& file) const {
    const std::optional<std::string> damage = cache_.FindDamage(commit_, file);
    if (!damage) return absl::OkStatus();
    if (!hub_.settings().is_offline) {
      LogWarning(absl::StrCat(at_commit_.name, ": ", *damage, ": it is fetched again"));
      return absl::OkStatus();
    }
    return absl::DataLossError(absl::StrCat(at_commit_.name, ": ", *damage, ": remove it, since it is damaged; ",
                                            Offline(hub_.settings(), at_commit_)));
  }

  absl::Status FetchOne(const HubFile& file, HubProgress& progress) {
    DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<FileLock> lock, cache_.LockBlob(file));
    if (!cache_.HasBlob(file)) {
      DISTILL_RETURN_IF_ERROR(
          WithAdvice(DownloadHubFile(hub_, at_commit_, file, cache_.BlobPath(file), progress), at_commit_));
    }
    return cache_.Link(commit_, file);
  }

  absl::Status CheckSpace(int64_t bytes) const {
    const std::string& folder = hub_.settings().cache_folder;
    const absl::StatusOr<int64_t> free = FreeBytes(folder);
    if (!free.ok() || *free >= bytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(at_commit_.name, ": ", bytes, " bytes are to be downloaded, and ",
                                                     *free, " are free in ", folder,
                                                     ": make space, or set HF_HOME to a folder of a larger disk"));
  }

  static int64_t SizeOf(const std::string& path) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    return error ? 0 : static_cast<int64_t>(size);
  }

  HubClient& hub_;
  const HubRepository at_commit_;
  const std::string commit_;
  const HubSelection& selection_;
  const HubCache cache_;
};

}  // namespace

absl::StatusOr<std::string> FindHubCommit(HubClient& hub, const HubRepository& repository) {
  if (IsCommit(repository.revision)) return repository.revision;
  const HubCache cache(hub.settings().cache_folder, repository);
  absl::StatusOr<std::string> commit = hub.settings().is_offline
                                           ? absl::FailedPreconditionError(Offline(hub.settings(), repository))
                                           : AskForCommit(hub, repository, kLookUps);
  if (commit.ok()) {
    const absl::Status kept = cache.WriteRef(repository.revision, *commit);
    if (!kept.ok()) LogWarning(kept.message());  // a cache that may only be read
    return commit;
  }
  const std::optional<std::string> known = cache.ReadRef(repository.revision);
  if (!known || !IsNoAnswer(commit.status()) || !FolderExists(cache.SnapshotFolder(*known))) {
    if (hub.settings().is_offline) {
      return absl::FailedPreconditionError(absl::StrCat(repository.name, " at ", repository.revision,
                                                        " is not in the cache, and ", commit.status().message()));
    }
    return WithAdvice(commit.status(), repository);
  }
  if (!hub.settings().is_offline) {
    LogWarning(absl::StrCat(commit.status().message(), "; the commit ", *known, " of the cache is taken"));
  }
  return *known;
}

absl::StatusOr<HubSnapshot> FetchHubSnapshot(HubClient& hub, const HubRepository& repository,
                                             const HubSelection& selection) {
  HubRepository at_commit = repository;
  DISTILL_ASSIGN_OR_RETURN(at_commit.revision, FindHubCommit(hub, repository));
  return Fetch(hub, std::move(at_commit), selection).Run();
}

}  // namespace distill
