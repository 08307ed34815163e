#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/checkpoint/checksums.h"
#include "libdistill/checkpoint/layout.h"
#include "libdistill/checkpoint/manifest.h"
#include "libdistill/checkpoint/remove_or_warn.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

// Syncs what the folder holds, then the folder itself, and lists it with checksums.
absl::StatusOr<std::vector<FileEntry>> SyncAndSum(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListEntries(folder));
  std::vector<FileEntry> entries;
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    if (FolderExists(path)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": a checkpoint holds files only, no folders"));
    }
    DISTILL_RETURN_IF_ERROR(Sync(path));
    DISTILL_ASSIGN_OR_RETURN(FileEntry entry, Checksum(folder, name));
    entries.push_back(std::move(entry));
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

// What a crashed run left in hidden folders, and what could not be removed before.
absl::Status ClearLeftovers(const std::string& output_dir) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, ListCheckpoints(output_dir));
  for (const FoundCheckpoint& entry : found) {
    if (!entry.of.is_aside) continue;
    const std::string place = CheckpointFolder(output_dir, entry.of.step);
    if (FolderExists(place)) {
      RemoveOrWarn(entry.folder);
    } else if (const absl::Status moved = Rename(entry.folder, place); !moved.ok()) {
      LogWarning(absl::StrCat(moved.message(), "; it is found where it is"));
    }
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListEntries(output_dir));
  for (const std::string& name : names) {
    const bool is_hidden = absl::StartsWith(name, absl::StrCat(".", kCheckpointPrefix));
    if (is_hidden && absl::EndsWith(name, kDraftSuffix)) RemoveOrWarn(JoinPath(output_dir, name));
  }
  return absl::OkStatus();
}

absl::Status MoveIntoPlace(const std::string& draft, const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListEntries(draft));
  for (const std::string& name : names) DISTILL_RETURN_IF_ERROR(Sync(JoinPath(draft, name)));
  for (const std::string& name : names) {
    DISTILL_RETURN_IF_ERROR(Rename(JoinPath(draft, name), JoinPath(folder, name)));
  }
  return absl::OkStatus();
}

// Others give their folders such names, too (Hugging Face's Trainer). One of ours that is damaged has one of these.
bool IsOurs(const FoundCheckpoint& entry) {
  return FileExists(JoinPath(entry.folder, kManifestFile)) || FileExists(JoinPath(entry.folder, kStateFile)) ||
         FileExists(JoinPath(entry.folder, kTensorsFile));
}

}  // namespace

absl::StatusOr<CheckpointDraft> CheckpointDraft::Begin(const std::string& output_dir, int64_t step) {
  if (FolderExists(output_dir)) {
    DISTILL_RETURN_IF_ERROR(ClearLeftovers(output_dir));
  } else {
    LogWarning(absl::StrCat("output_dir ", output_dir, " is not there: it was removed or moved, or its disk is gone; ",
                            "it is made anew, and what it had is lost unless you bring it back"));
  }
  const std::string folder = FreeHiddenFolder(output_dir, step, kDraftSuffix);
  DISTILL_RETURN_IF_ERROR(MakeFolder(folder));
  return CheckpointDraft(output_dir, folder, step);
}

absl::Status CheckpointDraft::WriteTensors(const std::map<std::string, TensorView>& tensors, TensorWriter write) {
  return WriteSafetensors(JoinPath(folder_, kTensorsFile), tensors, {{"format", "pt"}}, write);
}

absl::Status CheckpointDraft::Commit(const TrainerState& state) {
  DISTILL_RETURN_IF_ERROR(WriteWholeFile(JoinPath(folder_, kStateFile), Serialize(state)));
  CheckpointManifest manifest;
  manifest.step = step_;
  manifest.part_bytes = kChecksumPartBytes;
  DISTILL_ASSIGN_OR_RETURN(manifest.files, SyncAndSum(folder_));
  const std::string path = JoinPath(folder_, kManifestFile);
  DISTILL_RETURN_IF_ERROR(WriteWholeFile(path, SealManifest(manifest)));
  DISTILL_RETURN_IF_ERROR(Sync(path));
  DISTILL_RETURN_IF_ERROR(Sync(folder_));
  return Replace(folder_, output_dir_, step_);
}

void CheckpointDraft::Discard() { (void)RemoveFolder(folder_); }

absl::Status PublishFiles(const std::string& folder,
                          const std::function<absl::Status(const std::string& folder)>& write) {
  const std::string draft = JoinPath(folder, ".model.tmp");
  DISTILL_RETURN_IF_ERROR(RemoveFolder(draft));
  DISTILL_RETURN_IF_ERROR(MakeFolder(draft));
  absl::Status published = write(draft);
  if (published.ok()) published = MoveIntoPlace(draft, folder);
  RemoveOrWarn(draft);
  published.Update(Sync(folder));
  return published;
}

absl::Status CheckRemovable(const std::string& output_dir) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, ListCheckpoints(output_dir));
  for (const FoundCheckpoint& entry : found) {
    if (IsOurs(entry)) continue;
    return absl::FailedPreconditionError(absl::StrCat(entry.folder, " is no checkpoint of this library, and is not ",
                                                      "removed: move it away, or choose another output_dir"));
  }
  return absl::OkStatus();
}

absl::Status RemoveCheckpoints(const std::string& output_dir, const std::string& keep) {
  DISTILL_RETURN_IF_ERROR(CheckRemovable(output_dir));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, ListCheckpoints(output_dir));
  for (const FoundCheckpoint& entry : found) {
    if (!keep.empty() && CanonicalPath(entry.folder) == CanonicalPath(keep)) continue;
    DISTILL_RETURN_IF_ERROR(RemoveFolder(entry.folder));
  }
  return absl::OkStatus();
}

void RemoveOldCheckpoints(const std::string& output_dir, int64_t keep, int64_t step, const std::string& best) {
  if (keep <= 0) return;
  absl::StatusOr<std::vector<FoundCheckpoint>> listed = ListCheckpoints(output_dir);
  if (!listed.ok()) return LogWarning(absl::StrCat("old checkpoints stay: ", listed.status().message()));
  std::vector<FoundCheckpoint>& found = *listed;
  std::erase_if(found, [](const FoundCheckpoint& entry) { return !IsOurs(entry); });
  std::stable_partition(found.begin(), found.end(),
                        [step](const FoundCheckpoint& entry) { return entry.of.step <= step; });
  const auto canonical_best = best.empty() ? "" : CanonicalPath(best);
  const auto others = std::stable_partition(found.begin(), found.end(), [&](const FoundCheckpoint& entry) {
    return entry.of.step == step || (!best.empty() && CanonicalPath(entry.folder) == canonical_best);
  });
  for (auto entry = std::max(others, found.begin() + std::min<int64_t>(keep, std::ssize(found))); entry != found.end();
       ++entry) {
    RemoveOrWarn(entry->folder);
  }
}

}  // namespace distill
