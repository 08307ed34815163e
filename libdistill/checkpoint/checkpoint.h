// Checkpoints: OUTPUT_DIR/checkpoint-N, whole or not there at all, every file with its checksum.
//
//   DISTILL_ASSIGN_OR_RETURN(auto draft, CheckpointDraft::Begin(output_dir, step));
//   ... the model writer fills draft.folder() ...
//   DISTILL_RETURN_IF_ERROR(draft.WriteTensors(views, write));
//   DISTILL_RETURN_IF_ERROR(draft.Commit(state));
//
// A draft lies in a hidden folder beside its final name. Commit writes the trainer's state, syncs every file, writes
// the manifest last (docs/formats.md, "Checkpoints"), renames the folder and syncs its parent: a crash at any moment
// leaves the older checkpoints as they were. A checkpoint of the same step is set aside until the new one is in its
// place; ReadNewestCheckpoint finds it there. An output_dir may be s3://: there the manifest makes files a checkpoint,
// which checkpoint_place.h explains. One process writes (rank 0); the others wait until the caller says so.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "libdistill/proto/checkpoint_messages.h"
#include "libdistill/store/safetensors.h"

namespace distill {

class DraftFolder;  // checkpoint_place.h

class CheckpointDraft {
 public:
  // Makes the folder. The drafts that crashed runs left go; a checkpoint that one had set aside comes back. A local
  // output_dir that is not there is made, with a warning: a run has made it before. Errors of a store are never
  // Unavailable, neither here nor below: that is a lost rank's.
  [[nodiscard]] static absl::StatusOr<CheckpointDraft> Begin(const std::string& output_dir, int64_t step);

  // An empty folder, to be filled with files (no folders) by the caller; under s3:// by the functions of store/.
  const std::string& folder() const;
  // The trainer's tensors (weights, moments), by any names: optimizer.safetensors. They come one by one, as those of
  // WriteSafetensors (store/safetensors.h).
  [[nodiscard]] absl::Status WriteTensors(const std::map<std::string, TensorView>& tensors, TensorWriter write);
  // Blocks until everything is on disk; the draft is used up. After a failure the older checkpoints stand.
  [[nodiscard]] absl::Status Commit(const TrainerState& state);
  // Removes what was written: for a draft that will not be committed (a full disk gets its space back). Best effort.
  void Discard();

 private:
  CheckpointDraft(std::shared_ptr<DraftFolder> folder, int64_t step) : folder_(std::move(folder)), step_(step) {}

  std::shared_ptr<DraftFolder> folder_;
  int64_t step_;
};

struct Checkpoint {
  std::string folder;
  TrainerState state;
  std::shared_ptr<const SafetensorsFile> tensors;  // what WriteTensors got
};

// Reads every part of every file that a manifest lists, and compares its checksum. DataLoss: the first that differs.
[[nodiscard]] absl::Status CheckAllParts(const std::string& folder, const CheckpointManifest& manifest);

// That, or what has other ranks read parts of it (checkpoint/open_together.h).
using CheckParts = absl::FunctionRef<absl::Status(const std::string& folder, const CheckpointManifest& manifest)>;

// Reads every file and compares its checksum first. DataLoss names the damaged or missing file and says what to do;
// NotFound: no such folder, or one without a manifest; FailedPrecondition: a format of a newer version.
[[nodiscard]] absl::StatusOr<Checkpoint> ReadCheckpoint(const std::string& folder, CheckParts check = CheckAllParts);

// The newest whole checkpoint of `output_dir`; newer damaged ones are passed over with a warning. NotFound: there is no
// checkpoint at all. DataLoss: there are some, and all are damaged; what is wrong with the newest is named.
[[nodiscard]] absl::StatusOr<Checkpoint> ReadNewestCheckpoint(const std::string& output_dir,
                                                              CheckParts check = CheckAllParts);

// OUTPUT_DIR/checkpoint-STEP.
std::string CheckpointFolder(const std::string& output_dir, int64_t step);

// The folder of the newest one, whole or damaged; "" where `output_dir` holds none.
[[nodiscard]] absl::StatusOr<std::string> FindNewestCheckpoint(const std::string& output_dir);

// FailedPrecondition names a folder (or file) that is called like a checkpoint and holds no file of one: another
// program's, which nothing here removes.
[[nodiscard]] absl::Status CheckRemovable(const std::string& output_dir);

// Removes all of them but `keep` (a path of any form, "": none). CheckRemovable's error comes before any is removed.
[[nodiscard]] absl::Status RemoveCheckpoints(const std::string& output_dir, const std::string& keep);

// Keeps checkpoint-`step`, which was just saved, `best` (a folder; "": none), and those of the steps nearest before it,
// `keep` in all, or both of these two; the others go, first those of later steps (from before the run went back to an
// older checkpoint). keep <= 0 keeps all. Another program's folders of such names neither go nor count. What
// cannot be removed is a warning, once, and goes with a later save.
void RemoveOldCheckpoints(const std::string& output_dir, int64_t keep, int64_t step, const std::string& best = "");

// Puts the files that `write` makes in a fresh folder (files only: InvalidArgument names a folder) into `folder` (made
// when missing), and takes away what is read there as another model's weights (store/weight_files.h). A reader never
// finds files of two saves: on a local disk a crash leaves the model that was there, the new one, or for a moment none,
// until FinishPublishing or the next save or checkpoint in that folder completes what was begun
// (checkpoint/local_publish.cc); so nobody should read there meanwhile. What cannot be removed there is an error, and
// the save is completed later. Under s3:// `write` uses the functions of store/; files are sent as they are written,
// and get their names when all of them are there, config.json last. Before that config.json and weights of the model
// that was there go: where the names then cannot be given, no model is left, and PublishFiles has to be called again.
// What cannot be removed there is a warning.
[[nodiscard]] absl::Status PublishFiles(const std::string& folder,
                                        const std::function<absl::Status(const std::string& folder)>& write);

// Completes a save of PublishFiles that a crash or an error kept from being completed, if there is one in the local
// `folder`; under s3:// there is none. For who reads a model there that a run before may have left: the first thing,
// and once at a time with the folder's lock (output_lock.h). Blocks while another process completes it. An error leaves
// it as it is, to be completed later.
[[nodiscard]] absl::Status FinishPublishing(const std::string& folder);

}  // namespace distill
