// How checkpoints come into an output_dir, and go from it: on a local disk by renaming folders, in S3, where nothing
// can be renamed, by manifests, which come last and go first (docs/formats.md, "Checkpoints"). Inside checkpoint/ only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/checkpoint/layout.h"
#include "libdistill/proto/checkpoint_messages.h"

namespace distill {

// A checkpoint that is being written.
class DraftFolder {
 public:
  virtual ~DraftFolder() = default;
  // Where its files are written.
  virtual const std::string& folder() const = 0;
  // CheckpointManifest::folder.
  virtual std::string inner_folder() const { return ""; }
  // Blocks until all that was written there is stored for good, and lists it with checksums.
  [[nodiscard]] virtual absl::StatusOr<std::vector<FileEntry>> Seal() = 0;
  // After Seal. From the moment when the manifest stands the draft is checkpoint-STEP, in place of the one before.
  [[nodiscard]] virtual absl::Status Place(const std::string& manifest) = 0;
  // Removes what was written. Best effort.
  virtual void Discard() = 0;
};

class CheckpointPlace {
 public:
  virtual ~CheckpointPlace() = default;
  // As ListCheckpoints (layout.h), which calls it.
  [[nodiscard]] virtual absl::StatusOr<std::vector<FoundCheckpoint>> List() = 0;
  // As CheckpointDraft::Begin.
  [[nodiscard]] virtual absl::StatusOr<std::shared_ptr<DraftFolder>> Begin(int64_t step) = 0;
  [[nodiscard]] virtual absl::Status Remove(const std::string& folder) = 0;
  // The same so that at no moment a part of it can be taken for a checkpoint; `folder` becomes where it is left where
  // it cannot be removed.
  [[nodiscard]] virtual absl::Status HideAndRemove(std::string& folder) = 0;
  // As PublishFiles (checkpoint.h), into the folder itself.
  [[nodiscard]] virtual absl::Status Publish(const std::function<absl::Status(const std::string& folder)>& write) = 0;
};

// Of any store.
std::unique_ptr<CheckpointPlace> PlaceOf(const std::string& output_dir);
std::unique_ptr<CheckpointPlace> MakeLocalPlace(const std::string& output_dir);
std::unique_ptr<CheckpointPlace> MakeRemotePlace(const std::string& output_dir);

}  // namespace distill
