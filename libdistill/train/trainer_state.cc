#include "libdistill/train/trainer_state.h"

#include <map>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/checkpoint/open_together.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/random_state.h"

namespace distill {
namespace {

std::string RandomBytes(c10::Device device) {
  const torch::Tensor state = RandomState(device);
  return std::string(static_cast<const char*>(state.data_ptr()), state.nbytes());
}

void SetRandomBytes(c10::Device device, const std::string& bytes) {
  const torch::Tensor state = torch::empty({static_cast<int64_t>(bytes.size())}, torch::kUInt8);
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(state.data_ptr()));
  SetRandomState(device, state);
}

absl::StatusOr<std::vector<std::string>> RandomStatesOfAllRanks(RunContext& run) {
  const std::string mine = RandomBytes(run.device());
  std::string all(mine.size() * run.world_size(), '\0');
  DISTILL_RETURN_IF_ERROR(
      run.communicator().AllGather(mine.data(), all.data(), static_cast<int64_t>(mine.size()), DType::kUInt8));
  std::vector<std::string> states;
  for (int rank = 0; rank < run.world_size(); ++rank) states.push_back(all.substr(rank * mine.size(), mine.size()));
  return states;
}

absl::Status Fill(CheckpointDraft& draft, OrderedSave& save, const ModelWriter& writer, const TrainerState& state) {
  DISTILL_RETURN_IF_ERROR(writer(draft.folder()));
  std::map<std::string, TensorView> views;
  for (const auto& [name, tensor] : save.tensors()) {
    DISTILL_ASSIGN_OR_RETURN(views[name], SavedAs(tensor.mine.scalar_type(), tensor.shape));
  }
  DISTILL_RETURN_IF_ERROR(
      draft.WriteTensors(views, [&](const std::string& name, ByteSink sink) { return save.Pass(name, sink); }));
  return draft.Commit(state);
}

absl::Status Write(const TrainerOptions& options, OrderedSave& save, const ModelWriter& writer,
                   const TrainerState& state) {
  DISTILL_ASSIGN_OR_RETURN(CheckpointDraft draft, CheckpointDraft::Begin(options.output_dir, state.step));
  const absl::Status filled = CatchTorch([&] { return Fill(draft, save, writer, state); });
  if (!filled.ok()) {
    draft.Discard();
    return filled;
  }
  RemoveOldCheckpoints(options.output_dir, options.save_total_limit, state.step, state.best_checkpoint);
  return absl::OkStatus();
}

constexpr char kOrPart[] = ", or another part of the model was trained (layers_to_unfreeze, use_peft, hidden_weight)";

absl::Status CheckTensors(const Checkpoint& checkpoint, const TensorState& tensors) {
  for (const auto& [name, tensor] : tensors) {
    const TensorView* view = checkpoint.tensors->Find(name);
    if (view != nullptr && view->shape == tensor.shape) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint.folder, " is of another model: ", name, " has shape ", ShapeToString(tensor.shape),
                     view == nullptr ? absl::StrCat(" here, and is missing there", kOrPart)
                                     : absl::StrCat(" here, ", ShapeToString(view->shape), " there")));
  }
  // What was trained would be lost without a word.
  for (const auto& [name, view] : checkpoint.tensors->tensors()) {
    if (!absl::StartsWith(name, "master.") || tensors.count(name) > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint.folder, " is of another model: it has ", name, ", which is not trained here", kOrPart));
  }
  return absl::OkStatus();
}

// On rank 0: finds the checkpoint, of the same tensors, of which none is read yet; of step 0 where there is none.
absl::StatusOr<Checkpoint> Open(const TrainerOptions& options, const TensorState& tensors, CheckParts check) {
  absl::StatusOr<Checkpoint> read = WantsNewest(options) ? ReadNewestCheckpoint(options.output_dir, check)
                                                         : ReadCheckpoint(options.resume_from_checkpoint, check);
  if (WantsNewest(options) && read.status().code() == absl::StatusCode::kNotFound) {
    LogInfo(absl::StrCat("no checkpoint in ", options.output_dir, " to resume from: starting anew"));
    return Checkpoint();
  }
  DISTILL_ASSIGN_OR_RETURN(Checkpoint checkpoint, std::move(read));
  DISTILL_RETURN_IF_ERROR(CheckTensors(checkpoint, tensors));
  LogInfo(absl::StrCat("resuming from ", checkpoint.folder, " at step ", checkpoint.state.step));
  TrainerState& state = checkpoint.state;
  // Beside this one, where the folder was moved.
  if (!state.best_checkpoint.empty() && !FolderExists(state.best_checkpoint)) {
    state.best_checkpoint = CheckpointFolder(ParentFolder(CanonicalPath(checkpoint.folder)), state.best_step);
  }
  if (state.best_step > 0 && options.best_model.load_best_model_at_end && !FolderExists(state.best_checkpoint)) {
    LogWarning(absl::StrCat("the best checkpoint so far, that of step ", state.best_step,
                            ", is not there: the best is looked for anew"));
    state.best_metric.clear();
  }
  return checkpoint;
}

absl::StatusOr<Checkpoint> OpenOnAllRanks(RunContext& run,
                                          absl::FunctionRef<absl::StatusOr<Checkpoint>(CheckParts)> open) {
  return OpenTogether(run.communicator(), [&](CheckParts check) {
    absl::StatusOr<Checkpoint> opened = Checkpoint();
    const absl::Status caught = CatchTorch([&] { return (opened = open(check)).status(); });
    return caught.ok() ? std::move(opened) : caught;
  });
}

absl::Status ReadTensors(RunContext& run, const Checkpoint& checkpoint, const TensorState& tensors) {
  for (const auto& [name, tensor] : tensors) {
    TensorView whole;
    if (run.rank() == 0) {
      DISTILL_ASSIGN_OR_RETURN(whole, checkpoint.tensors->Load(name));
    }
    DISTILL_RETURN_IF_ERROR(SpreadFromRank0(run.communicator(), whole, tensor));
    if (run.rank() == 0) checkpoint.tensors->Forget(name);
  }
  return absl::OkStatus();
}

void RestoreRandomState(const RunContext& run, const TrainerState& state) {
  const bool fits = static_cast<int>(state.random_states.size()) == run.world_size() &&
                    state.random_states[run.rank()].size() == RandomBytes(run.device()).size();
  if (fits) return SetRandomBytes(run.device(), state.random_states[run.rank()]);
  if (run.rank() != 0) return;
  LogWarning(absl::StrCat("the checkpoint is of ", state.random_states.size(),
                          " ranks or of another kind of device: random states start anew"));
}

// The rows of a step, where the settings tell.
std::optional<int64_t> RowsOfStep(const std::map<std::string, std::string>& settings, int64_t ranks) {
  int64_t rows = ranks, of_all = 0;
  const auto all = settings.find("global_batch_size");
  if (all != settings.end() && absl::SimpleAtoi(all->second, &of_all) && of_all > 0) return of_all / ranks * ranks;
  for (const char* name : {"per_device_train_batch_size", "gradient_accumulation_steps"}) {
    const auto found = settings.find(name);
    int64_t value = 0;
    if (found == settings.end() || !absl::SimpleAtoi(found->second, &value)) return std::nullopt;
    rows *= value;
  }
  return rows;
}

void WarnOfOtherSteps(int64_t ranks, const TrainerOptions& options, const TrainerState& state) {
  const auto saved_ranks = static_cast<int64_t>(state.random_states.size());
  const std::optional<int64_t> rows =
      RowsOfStep({options.resolved_config.begin(), options.resolved_config.end()}, ranks);
  const std::optional<int64_t> saved = RowsOfStep({state.settings.begin(), state.settings.end()}, saved_ranks);
  if (!rows.has_value() || !saved.has_value() || *rows == *saved) return;
  LogWarning(absl::StrCat("resuming with ", *rows, " rows a step (", ranks, " ranks); the checkpoint was made with ",
                          *saved, " (", saved_ranks,
                          " ranks): epochs and the learning rate continue on a different schedule. Keep ",
                          "global_batch_size, or per_device_train_batch_size x gradient_accumulation_steps x ranks, ",
                          "for the same steps"));
}

std::string Shown(const std::string& value) { return value.empty() ? "(empty)" : value; }

void WarnOfOtherSettings(const TrainerOptions& options, const TrainerState& state) {
  const std::map<std::string, std::string> saved(state.settings.begin(), state.settings.end());
  for (const auto& [name, value] : options.resolved_config) {
    const auto found = saved.find(name);
    if (found == saved.end() || found->second == value || name == "resume_from_checkpoint") continue;
    LogWarning(absl::StrCat("resuming with ", name, " = ", Shown(value), "; the checkpoint was made with ",
                            Shown(found->second)));
  }
}

}  // namespace

absl::Status SaveCheckpoint(RunContext& run, const TrainerOptions& options, const TensorState& tensors,
                            ShardedBlocks* blocks, const ModelWriter& writer, TrainerState state) {
  DISTILL_ASSIGN_OR_RETURN(state.random_states, RandomStatesOfAllRanks(run));
  state.settings = options.resolved_config;
  const absl::Status saved = OrderedSave(run.communicator(), tensors, blocks).Run([&](OrderedSave& save) {
    return Write(options, save, writer, state);
  });
  return Annotate(saved, absl::StrCat("saving the checkpoint of step ", state.step));
}

bool WantsNewest(const TrainerOptions& options) {
  const std::string lower = absl::AsciiStrToLower(options.resume_from_checkpoint);
  return lower == "latest" || lower == "true";
}

bool WantsToResume(const TrainerOptions& options) {
  const std::string lower = absl::AsciiStrToLower(options.resume_from_checkpoint);
  return !lower.empty() && lower != "false" && lower != "none";
}

bool WillResume(const TrainerOptions& options) {
  if (!WantsToResume(options)) return false;
  return !WantsNewest(options) || !FindNewestCheckpoint(options.output_dir).value_or("").empty();
}

bool ResumesInOutputDir(const TrainerOptions& options) {
  if (!WantsToResume(options)) return false;
  if (WantsNewest(options)) return true;
  return ParentFolder(CanonicalPath(options.resume_from_checkpoint)) == CanonicalPath(options.output_dir);
}

absl::Status CheckOutputFolder(const TrainerOptions& options) {
  const std::string &folder = options.output_dir, &from = options.resume_from_checkpoint;
  if (WantsToResume(options) && !WantsNewest(options) && !FolderExists(from)) {
    DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(from));
    DISTILL_RETURN_IF_ERROR(Annotate(store->KindOf(from).status(), "resume_from_checkpoint"));  // it does not answer
    const std::string inside = JoinPath(folder, from);
    return absl::NotFoundError(absl::StrCat("resume_from_checkpoint: no folder ", from,
                                            FolderExists(inside) ? absl::StrCat("; did you mean ", inside, "?") : ""));
  }
  if (folder.empty() || !FolderExists(folder)) return absl::OkStatus();
  const bool resumes_here = ResumesInOutputDir(options);
  if (options.overwrite_output_dir) return resumes_here ? absl::OkStatus() : CheckRemovable(folder);
  DISTILL_ASSIGN_OR_RETURN(const std::string checkpoint, FindNewestCheckpoint(folder));
  if (!checkpoint.empty()) {
    if (resumes_here) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("output_dir: ", folder, " holds checkpoints of an earlier run (", checkpoint,
                     "): set resume_from_checkpoint to latest to continue it, choose another output_dir, or set "
                     "overwrite_output_dir to true to remove them"));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> weights, ListFiles(folder, "", ".safetensors"));
  if (weights.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "output_dir: ", folder, " holds a model already (", weights.front(),
      "): choose another output_dir, or set overwrite_output_dir to true to replace it when this run is done"));
}

std::string HowToResume(const TrainerOptions& options, const std::string& checkpoint) {
  if (options.output_dir.empty()) return "there is no checkpoint: without output_dir nothing is written";
  if (checkpoint.empty() && options.save_strategy != SaveStrategy::kSteps) {
    return absl::StrCat("there is no checkpoint", options.save_strategy == SaveStrategy::kNo ? "" : " yet",
                        ": save_strategy is ", FieldText(options.save_strategy));
  }
  if (checkpoint.empty() && options.save_steps == 0) return "there is no checkpoint: save_steps is 0";
  if (checkpoint.empty()) {
    return absl::StrCat("there is no checkpoint yet: save_steps is ", options.save_steps,
                        ", a smaller one saves earlier");
  }
  // Where a later one of another attempt lies there, latest would take that.
  const bool is_latest = FindNewestCheckpoint(options.output_dir).value_or("") == checkpoint;
  return absl::StrCat("the newest checkpoint is ", checkpoint,
                      "; to resume, repeat the command with --resume_from_checkpoint ",
                      is_latest ? "latest" : checkpoint);
}

absl::StatusOr<TrainerState> RestoreCheckpoint(RunContext& run, const TrainerOptions& options,
                                               const TensorState& tensors, std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const Checkpoint opened,
                           OpenOnAllRanks(run, [&](CheckParts check) { return Open(options, tensors, check); }));
  DISTILL_ASSIGN_OR_RETURN(const std::string bytes, BroadcastBytes(run.communicator(), Serialize(opened.state)));
  DISTILL_ASSIGN_OR_RETURN(const TrainerState state, ParseTrainerState(bytes, options.resume_from_checkpoint));
  if (state.step == 0) return state;

  folder = opened.folder;
  DISTILL_RETURN_IF_ERROR(ReadTensors(run, opened, tensors));
  RestoreRandomState(run, state);
  if (run.rank() == 0) {
    WarnOfOtherSettings(options, state);
    WarnOfOtherSteps(run.world_size(), options, state);
  }
  return state;
}

absl::Status RestoreTensors(RunContext& run, const std::string& folder, const TensorState& tensors) {
  DISTILL_ASSIGN_OR_RETURN(const Checkpoint opened,
                           OpenOnAllRanks(run, [&](CheckParts check) -> absl::StatusOr<Checkpoint> {
                             DISTILL_ASSIGN_OR_RETURN(Checkpoint checkpoint, ReadCheckpoint(folder, check));
                             DISTILL_RETURN_IF_ERROR(CheckTensors(checkpoint, tensors));
                             return checkpoint;
                           }));
  return ReadTensors(run, opened, tensors);
}

}  // namespace distill
