#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/checkpoint/durable_files.h"
#include "libdistill/checkpoint/layout.h"
#include "libdistill/checkpoint/manifest.h"
#include "libdistill/core/status_macros.h"
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

std::string HiddenName(const std::string& name, const char* suffix) { return absl::StrCat(".", name, suffix); }

// Takes the place of `name` with `from`. One that stands there already (from before the run went back to an older
// checkpoint) goes only after the new one is on disk under its name.
absl::Status Replace(const std::string& from, const std::string& output_dir, const std::string& name) {
  const std::string to = JoinPath(output_dir, name), aside = JoinPath(output_dir, HiddenName(name, kSetAsideSuffix));
  if (FolderExists(to)) {
    DISTILL_RETURN_IF_ERROR(RemoveFolder(aside));
    DISTILL_RETURN_IF_ERROR(Rename(to, aside));
  }
  DISTILL_RETURN_IF_ERROR(Rename(from, to));
  DISTILL_RETURN_IF_ERROR(Sync(output_dir));
  return RemoveFolder(aside);
}

// What a crashed run left in hidden folders.
absl::Status ClearLeftovers(const std::string& output_dir) {
  if (!FolderExists(output_dir)) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListEntries(output_dir));
  for (const std::string& hidden : names) {
    if (!absl::StartsWith(hidden, absl::StrCat(".", kCheckpointPrefix))) continue;
    const std::string path = JoinPath(output_dir, hidden);
    const bool is_aside = absl::EndsWith(hidden, kSetAsideSuffix);
    const std::string name = hidden.substr(1, hidden.size() - 1 - std::strlen(kSetAsideSuffix));
    if (is_aside && !FolderExists(JoinPath(output_dir, name))) {
      DISTILL_RETURN_IF_ERROR(Rename(path, JoinPath(output_dir, name)));
    } else if (is_aside || absl::EndsWith(hidden, kDraftSuffix)) {
      DISTILL_RETURN_IF_ERROR(RemoveFolder(path));
    }
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

}  // namespace

absl::StatusOr<CheckpointDraft> CheckpointDraft::Begin(const std::string& output_dir, int64_t step) {
  DISTILL_RETURN_IF_ERROR(ClearLeftovers(output_dir));
  const std::string folder = JoinPath(output_dir, HiddenName(absl::StrCat(kCheckpointPrefix, step), kDraftSuffix));
  DISTILL_RETURN_IF_ERROR(MakeFreshFolder(folder));
  return CheckpointDraft(output_dir, folder, step);
}

absl::Status CheckpointDraft::WriteTensors(const std::map<std::string, TensorView>& tensors) {
  return WriteSafetensors(JoinPath(folder_, kTensorsFile), tensors, {{"format", "pt"}});
}

absl::Status CheckpointDraft::WriteTensors(const std::map<std::string, TensorView>& tensors, TensorWriter write) {
  return WriteSafetensors(JoinPath(folder_, kTensorsFile), tensors, {{"format", "pt"}}, write);
}

absl::Status CheckpointDraft::Commit(const TrainerState& state) {
  DISTILL_RETURN_IF_ERROR(WriteWholeFile(JoinPath(folder_, kStateFile), Serialize(state)));
  CheckpointManifest manifest;
  manifest.step = step_;
  DISTILL_ASSIGN_OR_RETURN(manifest.files, SyncAndSum(folder_));
  const std::string path = JoinPath(folder_, kManifestFile);
  DISTILL_RETURN_IF_ERROR(WriteWholeFile(path, SealManifest(manifest)));
  DISTILL_RETURN_IF_ERROR(Sync(path));
  DISTILL_RETURN_IF_ERROR(Sync(folder_));
  return Replace(folder_, output_dir_, absl::StrCat(kCheckpointPrefix, step_));
}

void CheckpointDraft::Discard() { (void)RemoveFolder(folder_); }

absl::Status PublishFiles(const std::string& folder,
                          const std::function<absl::Status(const std::string& folder)>& write) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::PermissionDeniedError(absl::StrCat("cannot make ", folder, ": ", error.message()));
  const std::string draft = JoinPath(folder, ".model.tmp");
  DISTILL_RETURN_IF_ERROR(MakeFreshFolder(draft));
  absl::Status published = write(draft);
  if (published.ok()) published = MoveIntoPlace(draft, folder);
  published.Update(RemoveFolder(draft));
  published.Update(Sync(folder));
  return published;
}

}  // namespace distill
