#include "libdistill/train/run_checkpoints.h"

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/shard/ordered_save.h"
#include "libdistill/store/canonical_path.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {

ModelWriter RunCheckpoints::Writer() {
  return [this](const std::string& folder) {
    const absl::Status written = task_.SaveModel(trained_.module(), folder);
    return absl::IsUnimplemented(written) ? WriteWeights(trained_.module(), folder) : written;
  };
}

absl::StatusOr<TrainerState> RunCheckpoints::Restore() {
  if (!WantsToResume(options_)) return TrainerState();
  return RestoreCheckpoint(run_, options_, trained_.Tensors(), newest_);
}

absl::StatusOr<std::string> RunCheckpoints::Save(TrainerState& state) {
  DISTILL_RETURN_IF_ERROR(Agree(run_.communicator(), CatchTorch([&] {
                                  state.position = task_.Position();
                                  return absl::OkStatus();
                                })));
  if (state.best_step == state.step) {
    state.best_checkpoint = CheckpointFolder(CanonicalPath(options_.output_dir), state.step);
  }
  DISTILL_RETURN_IF_ERROR(BroadcastBuffers(run_.communicator(), trained_.module()));
  DISTILL_RETURN_IF_ERROR(trained_.WithModuleToSave(writes_whole_, [&](ShardedBlocks* in_order) {
    return SaveCheckpoint(run_, options_, trained_.Tensors(), in_order, Writer(), state);
  }));
  newest_ = CheckpointFolder(options_.output_dir, state.step);
  return newest_;
}

absl::Status RunCheckpoints::LoadBest(const BestEvaluation& best, const TrainerState& state) {
  if (!options_.best_model.load_best_model_at_end || best.step() == 0) return absl::OkStatus();
  if (run_.rank() == 0) LogInfo(absl::StrCat("the trained model is that of the best evaluation: ", best.Text()));
  if (best.step() == state.step) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(Annotate(RestoreTensors(run_, state.best_checkpoint, trained_.Tensors()),
                                   "load_best_model_at_end (false: the model of the last step is saved)"));
  return trained_.UseRestoredTensors();
}

absl::Status RunCheckpoints::Publish() {
  if (options_.output_dir.empty()) return absl::OkStatus();
  return trained_.WithModuleToSave(writes_whole_, [this](ShardedBlocks* in_order) {
    return OrderedSave(run_.communicator(), {}, in_order).Run([&](OrderedSave&) {
      return PublishFiles(options_.output_dir, Writer());
    });
  });
}

}  // namespace distill
