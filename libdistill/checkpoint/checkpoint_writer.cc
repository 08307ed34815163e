#include <filesystem>

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/checkpoint/durable_files.h"
#include "libdistill/checkpoint/layout.h"
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

// `from` takes the place of `to`, which may stand already (a run that went back to an older checkpoint).
absl::Status Replace(const std::string& from, const std::string& to, const std::string& discarded) {
  if (FolderExists(to)) {
    DISTILL_RETURN_IF_ERROR(RemoveFolder(discarded));
    DISTILL_RETURN_IF_ERROR(Rename(to, discarded));
  }
  DISTILL_RETURN_IF_ERROR(Rename(from, to));
  return RemoveFolder(discarded);
}

}  // namespace

absl::StatusOr<CheckpointDraft> CheckpointDraft::Begin(const std::string& output_dir, int64_t step) {
  const std::string folder = JoinPath(output_dir, absl::StrCat(".", kCheckpointPrefix, step, ".tmp"));
  DISTILL_RETURN_IF_ERROR(MakeFreshFolder(folder));
  return CheckpointDraft(output_dir, folder, step);
}

absl::Status CheckpointDraft::WriteTensors(const std::map<std::string, TensorView>& tensors) {
  return WriteSafetensors(JoinPath(folder_, kTensorsFile), tensors, {{"format", "pt"}});
}

absl::Status CheckpointDraft::Commit(const TrainerState& state) {
  DISTILL_RETURN_IF_ERROR(WriteWholeFile(JoinPath(folder_, kStateFile), Serialize(state)));
  CheckpointManifest manifest{.format_version = kCheckpointFormatVersion, .step = step_, .files = {}};
  DISTILL_ASSIGN_OR_RETURN(manifest.files, SyncAndSum(folder_));
  const std::string path = JoinPath(folder_, kManifestFile);
  DISTILL_RETURN_IF_ERROR(WriteWholeFile(path, Serialize(manifest)));
  DISTILL_RETURN_IF_ERROR(Sync(path));
  DISTILL_RETURN_IF_ERROR(Sync(folder_));
  const std::string name = absl::StrCat(kCheckpointPrefix, step_);
  DISTILL_RETURN_IF_ERROR(
      Replace(folder_, JoinPath(output_dir_, name), JoinPath(output_dir_, absl::StrCat(".", name, ".old"))));
  return Sync(output_dir_);
}

absl::Status PublishFiles(const std::string& folder,
                          const std::function<absl::Status(const std::string& folder)>& write) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::PermissionDeniedError(absl::StrCat("cannot make ", folder, ": ", error.message()));
  const std::string draft = JoinPath(folder, ".model.tmp");
  DISTILL_RETURN_IF_ERROR(MakeFreshFolder(draft));
  DISTILL_RETURN_IF_ERROR(write(draft));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListEntries(draft));
  for (const std::string& name : names) DISTILL_RETURN_IF_ERROR(Sync(JoinPath(draft, name)));
  for (const std::string& name : names) {
    DISTILL_RETURN_IF_ERROR(Rename(JoinPath(draft, name), JoinPath(folder, name)));
  }
  DISTILL_RETURN_IF_ERROR(RemoveFolder(draft));
  return Sync(folder);
}

}  // namespace distill
