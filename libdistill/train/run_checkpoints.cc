#include "libdistill/train/run_checkpoints.h"

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/shard/ordered_save.h"
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
  DISTILL_ASSIGN_OR_RETURN(TrainerState state, RestoreCheckpoint(run_, options_, trained_.Tensors(), newest_));
  if (run_.rank() == 0 && state.best_step > 0) best_ = Sibling(newest_, state.best_step);
  return state;
}

absl::StatusOr<std::string> RunCheckpoints::Save(TrainerState& state) {
  DISTILL_RETURN_IF_ERROR(Agree(run_.communicator(), CatchTorch([&] {
                                  state.position = task_.Position();
                                  return absl::OkStatus();
                                })));
  DISTILL_RETURN_IF_ERROR(BroadcastBuffers(run_.communicator(), trained_.module()));
  DISTILL_RETURN_IF_ERROR(trained_.WithModuleToSave(writes_whole_, [&](ShardedBlocks* in_order) {
    return SaveCheckpoint(run_, options_, trained_.Tensors(), in_order, Writer(), state);
  }));
  newest_ = CheckpointFolder(options_.output_dir, state.step);
  if (state.best_step == state.step) best_ = newest_;
  return newest_;
}

absl::Status RunCheckpoints::LoadBest(const BestEvaluation& best, int64_t last_step) {
  if (!options_.best_model.load_best_model_at_end || best.step() == 0) return absl::OkStatus();
  if (run_.rank() == 0) LogInfo(absl::StrCat("the trained model is that of the best evaluation: ", best.Text()));
  if (best.step() == last_step) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(
      Annotate(RestoreTensors(run_, best_, trained_.Tensors()), "load_best_model_at_end, after the last step"));
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
