#include "libdistill/train/run_checkpoints.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/checkpoint/final_save.h"
#include "libdistill/checkpoint/space.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/shard/ordered_save.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {

namespace {

// A store that does not answer now has it still.
bool Stands(const std::string& checkpoint) {
  if (checkpoint.empty()) return false;
  if (!IsRemote(checkpoint)) return FolderExists(checkpoint);
  const absl::StatusOr<std::shared_ptr<Store>> store = StoreOf(checkpoint);
  const absl::StatusOr<PathKind> kind = store.ok() ? (*store)->KindOf(checkpoint) : store.status();
  return !kind.ok() || *kind == PathKind::kFolder;
}

}  // namespace

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
  std::string best_before = state.best_checkpoint;
  if (state.best_step == state.step) {
    state.best_checkpoint = CheckpointFolder(CanonicalPath(options_.output_dir), state.step);
  }
  DISTILL_RETURN_IF_ERROR(BroadcastBuffers(run_.communicator(), trained_.module()));
  const absl::Status saved = trained_.WithModuleToSave(writes_whole_, [&](ShardedBlocks* in_order) {
    return SaveCheckpoint(run_, options_, trained_.Tensors(), in_order, Writer(), state);
  });
  if (!saved.ok()) {
    state.best_checkpoint = std::move(best_before);
    return saved;
  }
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

absl::Status RunCheckpoints::Publish(const std::function<bool()>& gives_up) {
  if (options_.output_dir.empty()) return absl::OkStatus();
  return trained_.WithModuleToSave(writes_whole_, [&](ShardedBlocks* in_order) {
    return OrderedSave(run_.communicator(), {}, in_order).Run([&](OrderedSave&) {
      return PublishWithRetries(options_.output_dir, options_.final_save_retry, Writer(), gives_up);
    });
  });
}

absl::Status RunCheckpoints::RequireOne() const {
  const bool is_gone = run_.rank() == 0 && !Stands(newest_);
  return Agree(run_.communicator(), is_gone ? absl::NotFoundError("no checkpoint stands") : absl::OkStatus());
}

absl::Status RunCheckpoints::CheckSpace(int64_t total_steps) const {
  if (options_.output_dir.empty()) return absl::OkStatus();
  int64_t model = 0, checkpoint = 0;
  for (const torch::Tensor& weight : trained_.module().parameters()) model += static_cast<int64_t>(weight.nbytes());
  for (const auto& [name, tensor] : trained_.Tensors()) {
    checkpoint += c10::multiply_integers(tensor.shape) * static_cast<int64_t>(tensor.mine.element_size());
  }
  checkpoint += model;
  const bool by_steps = options_.save_strategy == SaveStrategy::kSteps && options_.save_steps > 0;
  const int64_t planned = by_steps ? total_steps / options_.save_steps + 1 : 1;
  const bool saves = by_steps || options_.save_strategy == SaveStrategy::kEpoch;
  const int64_t limit = options_.save_total_limit;
  return distill::CheckSpace(options_.output_dir, {.model_bytes = model,
                                                   .checkpoint_bytes = checkpoint,
                                                   .kept = saves ? std::min(std::max<int64_t>(1, limit), planned) : 0,
                                                   .planned = saves && limit == 0 ? planned : 0});
}

}  // namespace distill
