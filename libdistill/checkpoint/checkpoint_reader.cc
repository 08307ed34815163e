#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/checkpoint/checksums.h"
#include "libdistill/checkpoint/layout.h"
#include "libdistill/checkpoint/manifest.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

// None: there is no such file.
absl::StatusOr<std::optional<uint64_t>> SizeOfFile(const std::string& path) {
  const absl::StatusOr<std::shared_ptr<const ReadableFile>> file = OpenFile(path);
  if (absl::IsNotFound(file.status()) || absl::IsInvalidArgument(file.status())) return std::nullopt;  // or a folder
  if (!file.ok()) return file.status();
  return static_cast<uint64_t>((*file)->size());
}

// Or empty: the files lie beside the manifest.
bool IsFolderName(const std::string& name) { return !absl::StrContains(name, "/") && name != "." && name != ".."; }

// Its name, that it is there, and its size.
absl::Status CheckFile(const std::string& folder, const CheckpointManifest& manifest, const FileEntry& expected) {
  const std::string path = PathOfFile(folder, manifest, expected.name);
  // Names come out of a file: none may lead out of the folder.
  if (expected.name.empty() || absl::StrContains(expected.name, "/") || !IsFolderName(manifest.folder)) {
    return absl::DataLossError(absl::StrCat(JoinPath(folder, kManifestFile), " is damaged: '",
                                            JoinPath(manifest.folder, expected.name), "' is no file name; ",
                                            kAdviceOnDamage));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::optional<uint64_t> size, SizeOfFile(path));
  if (!size.has_value()) return absl::DataLossError(absl::StrCat(path, " is missing; ", kAdviceOnDamage));
  if (*size == expected.size_bytes) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, " is damaged: ", *size, " bytes instead of ", expected.size_bytes, "; ", kAdviceOnDamage));
}

// Every file that the manifest lists is there, and as it was written.
absl::StatusOr<CheckpointManifest> CheckManifest(const std::string& folder, CheckParts check) {
  const std::string path = JoinPath(folder, kManifestFile);
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(folder));
  DISTILL_ASSIGN_OR_RETURN(const PathKind kind, store->KindOf(folder));
  if (kind != PathKind::kFolder) return absl::NotFoundError(absl::StrCat("no checkpoint folder ", folder));
  DISTILL_ASSIGN_OR_RETURN(const PathKind kind_of_manifest, store->KindOf(path));
  if (kind_of_manifest != PathKind::kFile) {
    return absl::NotFoundError(absl::StrCat(folder, " is no whole checkpoint: it has no ", kManifestFile));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  absl::StatusOr<CheckpointManifest> opened = OpenManifest(bytes, path);
  if (absl::IsDataLoss(opened.status())) {
    return absl::DataLossError(absl::StrCat(opened.status().message(), "; ", kAdviceOnDamage));
  }
  if (!opened.ok()) return opened.status();
  const CheckpointManifest& manifest = *opened;
  for (const char* name : {kStateFile, kTensorsFile}) {
    if (std::none_of(manifest.files.begin(), manifest.files.end(),
                     [&](const FileEntry& file) { return file.name == name; })) {
      return absl::DataLossError(absl::StrCat(path, " is damaged: it does not list ", name, "; ", kAdviceOnDamage));
    }
  }
  for (const FileEntry& file : manifest.files) DISTILL_RETURN_IF_ERROR(CheckFile(folder, manifest, file));
  DISTILL_RETURN_IF_ERROR(check(folder, manifest));
  return manifest;
}

// The folder's name, the manifest and the state each have the step: files of another checkpoint do not pass.
absl::Status CheckSteps(const std::string& folder, int64_t manifest_step, int64_t state_step) {
  if (state_step != manifest_step) {
    return absl::DataLossError(absl::StrCat(folder, " is damaged: its ", kStateFile, " is of step ", state_step,
                                            ", and its ", kManifestFile, " of step ", manifest_step, "; ",
                                            kAdviceOnDamage));
  }
  std::error_code ignored;
  const auto path = (std::filesystem::absolute(folder, ignored) / "").lexically_normal();
  const std::optional<NamedStep> named = StepOfName(path.parent_path().filename().string());
  if (!named.has_value() || named->step == manifest_step) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(folder, " is called step ", named->step, ", and what it holds is of step ",
                                          manifest_step, ": it was renamed, or its files are another checkpoint's; ",
                                          "give it its name back (", kCheckpointPrefix, manifest_step,
                                          "), or resume from another one"));
}

// Not the checkpoint's fault.
bool IsLostRank(const absl::Status& error) {
  return absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error) || absl::IsAborted(error);
}

}  // namespace

absl::Status CheckAllParts(const std::string& folder, const CheckpointManifest& manifest) {
  const int64_t parts = CountParts(manifest);
  for (int64_t part = 0; part < parts; ++part) DISTILL_RETURN_IF_ERROR(CheckPart(folder, manifest, part));
  return absl::OkStatus();
}

absl::StatusOr<Checkpoint> ReadCheckpoint(const std::string& folder, CheckParts check) {
  DISTILL_ASSIGN_OR_RETURN(const CheckpointManifest manifest, CheckManifest(folder, check));
  Checkpoint checkpoint{.folder = folder, .state = {}, .tensors = nullptr};
  const std::string state_path = PathOfFile(folder, manifest, kStateFile);
  DISTILL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(state_path));
  DISTILL_ASSIGN_OR_RETURN(checkpoint.state, ParseTrainerState(bytes, state_path));
  DISTILL_RETURN_IF_ERROR(CheckSteps(folder, manifest.step, checkpoint.state.step));
  DISTILL_ASSIGN_OR_RETURN(SafetensorsFile tensors, SafetensorsFile::Open(PathOfFile(folder, manifest, kTensorsFile)));
  checkpoint.tensors = std::make_shared<const SafetensorsFile>(std::move(tensors));
  return checkpoint;
}

absl::StatusOr<Checkpoint> ReadNewestCheckpoint(const std::string& output_dir, CheckParts check) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, ListCheckpoints(output_dir));
  if (found.empty()) return absl::NotFoundError(absl::StrCat("no checkpoint to resume from in ", output_dir));
  absl::Status newest;
  for (const FoundCheckpoint& entry : found) {
    absl::StatusOr<Checkpoint> checkpoint = ReadCheckpoint(entry.folder, check);
    if (checkpoint.ok()) {
      if (!newest.ok()) LogWarning(absl::StrCat("passing over a newer checkpoint: ", newest.message()));
      return checkpoint;
    }
    if (IsLostRank(checkpoint.status())) return checkpoint.status();
    newest.Update(checkpoint.status());
  }
  const absl::StatusCode code = absl::IsNotFound(newest) ? absl::StatusCode::kDataLoss : newest.code();
  return absl::Status(code, absl::StrCat("none of the ", found.size(), " checkpoints in ", output_dir,
                                         " can be resumed from; the newest: ", newest.message()));
}

absl::StatusOr<std::string> FindNewestCheckpoint(const std::string& output_dir) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, ListCheckpoints(output_dir));
  return found.empty() ? "" : found.front().folder;
}

}  // namespace distill
