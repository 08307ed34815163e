#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/checkpoint/checkpoint_place.h"
#include "libdistill/checkpoint/checksums.h"
#include "libdistill/checkpoint/local_publish.h"
#include "libdistill/checkpoint/remove_or_warn.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

// A path in `output_dir` that nothing has: .checkpoint-STEP.tmp, or .checkpoint-STEP.1.tmp and on where that is taken.
std::string FreeHiddenFolder(const std::string& output_dir, int64_t step, const char* suffix) {
  const std::string name = absl::StrCat(".", kCheckpointPrefix, step);
  std::string folder = JoinPath(output_dir, name + suffix);
  for (int number = 1; EntryExists(folder); ++number) {
    folder = JoinPath(output_dir, absl::StrCat(name, ".", number, suffix));
  }
  return folder;
}

absl::StatusOr<std::string> VersionOfFile(const std::string& path) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const ReadableFile> file, OpenFile(path));
  return file->version();
}

// Syncs what the folder holds, and lists it with checksums: those of the bytes as they were written, where they passed
// by, so that no file is read back.
absl::StatusOr<std::vector<FileEntry>> SyncAndSum(const std::string& folder, WrittenSums& written) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListEntries(folder));
  std::vector<FileEntry> entries;
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    if (FolderExists(path)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": a checkpoint holds files only, no folders"));
    }
    DISTILL_RETURN_IF_ERROR(Sync(path));
    DISTILL_ASSIGN_OR_RETURN(const std::string version, VersionOfFile(path));
    std::optional<FileEntry> entry = written.Find(name, version);
    if (!entry.has_value()) {
      DISTILL_ASSIGN_OR_RETURN(entry, Checksum(folder, name));
    }
    entries.push_back(*std::move(entry));
  }
  return entries;
}

// Takes the place of checkpoint-`step` with `from`. One that stands there already (from before the run went back to an
// older checkpoint) goes only after the new one is on disk under its name.
absl::Status Replace(const std::string& from, const std::string& output_dir, int64_t step) {
  const std::string to = CheckpointFolder(output_dir, step);
  std::string aside;
  if (FolderExists(to)) {
    aside = FreeHiddenFolder(output_dir, step, kSetAsideSuffix);
    DISTILL_RETURN_IF_ERROR(Rename(to, aside));
  }
  DISTILL_RETURN_IF_ERROR(Rename(from, to));
  DISTILL_RETURN_IF_ERROR(Sync(output_dir));
  if (!aside.empty()) RemoveOrWarn(aside);
  return absl::OkStatus();
}

class LocalDraft : public DraftFolder {
 public:
  LocalDraft(std::string output_dir, std::string folder, int64_t step)
      : output_dir_(std::move(output_dir)),
        folder_(std::move(folder)),
        step_(step),
        followed_(folder_, sums_.Follower()) {}

  const std::string& folder() const override { return folder_; }
  absl::StatusOr<std::vector<FileEntry>> Seal() override { return SyncAndSum(folder_, sums_); }
  absl::Status Place(const std::string& manifest) override {
    const std::string path = JoinPath(folder_, kManifestFile);
    DISTILL_RETURN_IF_ERROR(WriteWholeFile(path, manifest));
    DISTILL_RETURN_IF_ERROR(Sync(path));
    DISTILL_RETURN_IF_ERROR(Sync(folder_));
    return Replace(folder_, output_dir_, step_);
  }
  void Discard() override { (void)RemoveFolder(folder_); }

 private:
  const std::string output_dir_, folder_;
  const int64_t step_;
  WrittenSums sums_;
  const FollowedFolder followed_;
};

class LocalPlace : public CheckpointPlace {
 public:
  explicit LocalPlace(const std::string& output_dir) : output_dir_(output_dir) {}

  absl::StatusOr<std::vector<FoundCheckpoint>> List() override {
    std::vector<FoundCheckpoint> found;
    if (!FolderExists(output_dir_)) return found;
    DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListEntries(output_dir_));
    for (const std::string& name : names) {
      const std::optional<NamedStep> of = StepOfName(name);
      if (of.has_value()) found.push_back({*of, JoinPath(output_dir_, name)});
    }
    return found;
  }

  absl::StatusOr<std::shared_ptr<DraftFolder>> Begin(int64_t step) override {
    if (FolderExists(output_dir_)) {
      DISTILL_RETURN_IF_ERROR(ClearLeftovers());
    } else {
      LogWarning(absl::StrCat("output_dir ", output_dir_,
                              " is not there: it was removed or moved, or its disk is gone; it is made anew, and what ",
                              "it had is lost unless you bring it back"));
    }
    const std::string folder = FreeHiddenFolder(output_dir_, step, kDraftSuffix);
    DISTILL_RETURN_IF_ERROR(MakeFolder(folder));
    return std::make_shared<LocalDraft>(output_dir_, folder, step);
  }

  absl::Status Remove(const std::string& folder) override { return RemoveFolder(folder); }

  absl::Status HideAndRemove(std::string& folder) override {
    const std::optional<NamedStep> named = StepOfName(LastName(folder));
    if (named.has_value()) {
      std::string hidden = FreeHiddenFolder(output_dir_, named->step, kDraftSuffix);
      DISTILL_RETURN_IF_ERROR(Rename(folder, hidden));
      folder = std::move(hidden);
    }
    return RemoveFolder(folder);
  }

  absl::Status Publish(const std::function<absl::Status(const std::string& folder)>& write) override {
    return PublishLocally(output_dir_, write);
  }

 private:
  // What a crashed run left in hidden folders, and what could not be removed before.
  absl::Status ClearLeftovers() {
    if (const absl::Status finished = FinishPublishing(output_dir_); !finished.ok()) {
      LogWarning(absl::StrCat(finished.message(), "; the next save tries again"));
    }
    DISTILL_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, ListCheckpoints(output_dir_));
    for (const FoundCheckpoint& entry : found) {
      if (!entry.of.is_aside) continue;
      const std::string place = CheckpointFolder(output_dir_, entry.of.step);
      if (FolderExists(place)) {
        RemoveOrWarn(entry.folder);
      } else if (const absl::Status moved = Rename(entry.folder, place); !moved.ok()) {
        LogWarning(absl::StrCat(moved.message(), "; it is found where it is"));
      }
    }
    DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListEntries(output_dir_));
    for (const std::string& name : names) {
      const bool is_hidden = absl::StartsWith(name, absl::StrCat(".", kCheckpointPrefix));
      if (is_hidden && absl::EndsWith(name, kDraftSuffix)) RemoveOrWarn(JoinPath(output_dir_, name));
    }
    return absl::OkStatus();
  }

  const std::string output_dir_;
};

}  // namespace

std::unique_ptr<CheckpointPlace> MakeLocalPlace(const std::string& output_dir) {
  return std::make_unique<LocalPlace>(output_dir);
}

}  // namespace distill
