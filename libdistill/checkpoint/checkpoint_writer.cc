#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/checkpoint/checkpoint_place.h"
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

// Others give their folders such names, too (Hugging Face's Trainer). One of ours that is damaged has one of these.
bool IsOurs(const FoundCheckpoint& entry) {
  return FileExists(JoinPath(entry.folder, kManifestFile)) || FileExists(JoinPath(entry.folder, kStateFile)) ||
         FileExists(JoinPath(entry.folder, kTensorsFile));
}

}  // namespace

absl::StatusOr<CheckpointDraft> CheckpointDraft::Begin(const std::string& output_dir, int64_t step) {
  DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<DraftFolder> folder, PlaceOf(output_dir)->Begin(step));
  return CheckpointDraft(std::move(folder), step);
}

const std::string& CheckpointDraft::folder() const { return folder_->folder(); }

absl::Status CheckpointDraft::WriteTensors(const std::map<std::string, TensorView>& tensors, TensorWriter write) {
  return WriteSafetensors(JoinPath(folder(), kTensorsFile), tensors, {{"format", "pt"}}, write);
}

absl::Status CheckpointDraft::Commit(const TrainerState& state) {
  DISTILL_RETURN_IF_ERROR(WriteWholeFile(JoinPath(folder(), kStateFile), Serialize(state)));
  CheckpointManifest manifest;
  manifest.step = step_;
  manifest.part_bytes = kChecksumPartBytes;
  manifest.folder = folder_->inner_folder();
  DISTILL_ASSIGN_OR_RETURN(manifest.files, folder_->Seal());
  return folder_->Place(SealManifest(manifest));
}

void CheckpointDraft::Discard() { folder_->Discard(); }

absl::Status PublishFiles(const std::string& folder,
                          const std::function<absl::Status(const std::string& folder)>& write) {
  return PlaceOf(folder)->Publish(write);
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
    DISTILL_RETURN_IF_ERROR(PlaceOf(output_dir)->Remove(entry.folder));
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
