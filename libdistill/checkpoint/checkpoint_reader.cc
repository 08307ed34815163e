#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/checkpoint/durable_files.h"
#include "libdistill/checkpoint/layout.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/canonical_path.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

constexpr char kAdvice[] = "resume from an older checkpoint, or start anew";

absl::Status CheckFile(const std::string& folder, const FileEntry& expected) {
  const std::string path = JoinPath(folder, expected.name);
  // Names come out of a file: none may lead out of the folder.
  if (expected.name.empty() || absl::StrContains(expected.name, "/")) {
    return absl::DataLossError(
        absl::StrCat(JoinPath(folder, kManifestFile), " is damaged: '", expected.name, "' is no file name; ", kAdvice));
  }
  if (!FileExists(path)) return absl::DataLossError(absl::StrCat(path, " is missing; ", kAdvice));
  DISTILL_ASSIGN_OR_RETURN(const FileEntry found, Checksum(folder, expected.name));
  if (found.size_bytes != expected.size_bytes) {
    return absl::DataLossError(absl::StrCat(path, " is damaged: ", found.size_bytes, " bytes instead of ",
                                            expected.size_bytes, "; ", kAdvice));
  }
  if (found.xxh3_high != expected.xxh3_high || found.xxh3_low != expected.xxh3_low) {
    return absl::DataLossError(absl::StrCat(path, " is damaged: its checksum differs from the manifest's; ", kAdvice));
  }
  return absl::OkStatus();
}

absl::Status CheckManifest(const std::string& folder) {
  const std::string path = JoinPath(folder, kManifestFile);
  if (!FolderExists(folder)) return absl::NotFoundError(absl::StrCat("no checkpoint folder ", folder));
  if (!FileExists(path)) {
    return absl::NotFoundError(absl::StrCat(folder, " is no whole checkpoint: it has no ", kManifestFile));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  DISTILL_ASSIGN_OR_RETURN(const CheckpointManifest manifest, ParseCheckpointManifest(bytes, path));
  if (manifest.format_version != kCheckpointFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": format version ", manifest.format_version,
                                                      "; this program reads version ", kCheckpointFormatVersion));
  }
  for (const char* name : {kStateFile, kTensorsFile}) {
    if (std::none_of(manifest.files.begin(), manifest.files.end(),
                     [&](const FileEntry& file) { return file.name == name; })) {
      return absl::DataLossError(absl::StrCat(path, " is damaged: it does not list ", name, "; ", kAdvice));
    }
  }
  for (const FileEntry& file : manifest.files) DISTILL_RETURN_IF_ERROR(CheckFile(folder, file));
  return absl::OkStatus();
}

struct Found {
  int64_t step = 0;
  bool is_aside = false;  // a crash kept another of the same step from taking its place
  std::string folder;
};

// Everything that is called checkpoint-N, and what was set aside of that name; the newest first.
absl::StatusOr<std::vector<Found>> ListCheckpoints(const std::string& output_dir) {
  std::vector<Found> found;
  if (!FolderExists(output_dir)) return found;
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListEntries(output_dir));
  for (const std::string& name : names) {
    absl::string_view number = name;
    Found entry{.folder = JoinPath(output_dir, name)};
    entry.is_aside = absl::ConsumePrefix(&number, ".") && absl::ConsumeSuffix(&number, kSetAsideSuffix);
    if (!entry.is_aside) number = name;
    if (absl::ConsumePrefix(&number, kCheckpointPrefix) && absl::SimpleAtoi(number, &entry.step)) {
      found.push_back(std::move(entry));
    }
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return a.step != b.step ? a.step > b.step : !a.is_aside && b.is_aside;
  });
  return found;
}

// Others give their folders such names, too (Hugging Face's Trainer). One of ours that is damaged has one of these.
bool IsOurs(const Found& entry) {
  return FileExists(JoinPath(entry.folder, kManifestFile)) || FileExists(JoinPath(entry.folder, kStateFile)) ||
         FileExists(JoinPath(entry.folder, kTensorsFile));
}

}  // namespace

absl::StatusOr<Checkpoint> ReadCheckpoint(const std::string& folder) {
  DISTILL_RETURN_IF_ERROR(CheckManifest(folder));
  Checkpoint checkpoint{.folder = folder, .state = {}, .tensors = nullptr};
  const std::string state_path = JoinPath(folder, kStateFile);
  DISTILL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(state_path));
  DISTILL_ASSIGN_OR_RETURN(checkpoint.state, ParseTrainerState(bytes, state_path));
  DISTILL_ASSIGN_OR_RETURN(SafetensorsFile tensors, SafetensorsFile::Open(JoinPath(folder, kTensorsFile)));
  checkpoint.tensors = std::make_shared<const SafetensorsFile>(std::move(tensors));
  return checkpoint;
}

absl::StatusOr<Checkpoint> ReadNewestCheckpoint(const std::string& output_dir) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Found> found, ListCheckpoints(output_dir));
  if (found.empty()) return absl::NotFoundError(absl::StrCat("no checkpoint to resume from in ", output_dir));
  absl::Status newest;
  for (const Found& entry : found) {
    absl::StatusOr<Checkpoint> checkpoint = ReadCheckpoint(entry.folder);
    if (checkpoint.ok()) {
      if (!newest.ok()) LogWarning(absl::StrCat("passing over a newer checkpoint: ", newest.message()));
      return checkpoint;
    }
    newest.Update(checkpoint.status());
  }
  const absl::StatusCode code = absl::IsNotFound(newest) ? absl::StatusCode::kDataLoss : newest.code();
  return absl::Status(code, absl::StrCat("none of the ", found.size(), " checkpoints in ", output_dir,
                                         " can be resumed from; the newest: ", newest.message()));
}

std::string CheckpointFolder(const std::string& output_dir, int64_t step) {
  return JoinPath(output_dir, absl::StrCat(kCheckpointPrefix, step));
}

absl::StatusOr<std::string> FindNewestCheckpoint(const std::string& output_dir) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Found> found, ListCheckpoints(output_dir));
  return found.empty() ? "" : found.front().folder;
}

absl::Status CheckRemovable(const std::string& output_dir) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Found> found, ListCheckpoints(output_dir));
  for (const Found& entry : found) {
    if (IsOurs(entry)) continue;
    return absl::FailedPreconditionError(absl::StrCat(entry.folder, " is no checkpoint of this library, and is not ",
                                                      "removed: move it away, or choose another output_dir"));
  }
  return absl::OkStatus();
}

absl::Status RemoveCheckpoints(const std::string& output_dir, const std::string& keep) {
  DISTILL_RETURN_IF_ERROR(CheckRemovable(output_dir));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<Found> found, ListCheckpoints(output_dir));
  for (const Found& entry : found) {
    if (!keep.empty() && CanonicalPath(entry.folder) == CanonicalPath(keep)) continue;
    DISTILL_RETURN_IF_ERROR(RemoveFolder(entry.folder));
  }
  return absl::OkStatus();
}

absl::Status RemoveOldCheckpoints(const std::string& output_dir, int64_t keep, int64_t step, const std::string& best) {
  if (keep <= 0) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(std::vector<Found> found, ListCheckpoints(output_dir));
  std::erase_if(found, [](const Found& entry) { return !IsOurs(entry); });
  std::stable_partition(found.begin(), found.end(), [step](const Found& entry) { return entry.step <= step; });
  const auto canonical_best = best.empty() ? "" : CanonicalPath(best);
  const auto others = std::stable_partition(found.begin(), found.end(), [&](const Found& entry) {
    return entry.step == step || (!best.empty() && CanonicalPath(entry.folder) == canonical_best);
  });
  for (auto entry = std::max(others, found.begin() + std::min<int64_t>(keep, std::ssize(found))); entry != found.end();
       ++entry) {
    DISTILL_RETURN_IF_ERROR(RemoveFolder(entry->folder));
  }
  return absl::OkStatus();
}

}  // namespace distill
