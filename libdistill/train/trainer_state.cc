#include "libdistill/train/trainer_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/train/module_state.h"

namespace distill {
namespace {

at::Generator GeneratorOf(c10::Device device) {
  return device.is_cuda() ? at::globalContext().defaultGenerator(device) : at::detail::getDefaultCPUGenerator();
}

std::string RandomState(c10::Device device) {
  const torch::Tensor state = GeneratorOf(device).get_state().cpu().contiguous();
  return std::string(static_cast<const char*>(state.data_ptr()), state.nbytes());
}

void SetRandomState(c10::Device device, const std::string& bytes) {
  const torch::Tensor state = torch::empty({static_cast<int64_t>(bytes.size())}, torch::kUInt8);
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(state.data_ptr()));
  at::Generator generator = GeneratorOf(device);
  generator.set_state(state);
}

absl::StatusOr<std::vector<std::string>> RandomStatesOfAllRanks(RunContext& run) {
  const std::string mine = RandomState(run.device());
  std::string all(mine.size() * run.world_size(), '\0');
  DISTILL_RETURN_IF_ERROR(
      run.communicator().AllGather(mine.data(), all.data(), static_cast<int64_t>(mine.size()), DType::kUInt8));
  std::vector<std::string> states;
  for (int rank = 0; rank < run.world_size(); ++rank) states.push_back(all.substr(rank * mine.size(), mine.size()));
  return states;
}

using WholeTensors = std::map<std::string, torch::Tensor>;

// Every rank must call it; on rank 0 alone the tensors are defined.
absl::StatusOr<WholeTensors> GatherAll(Communicator& comm, const TensorState& tensors) {
  WholeTensors whole;
  for (const auto& [name, tensor] : tensors) {
    DISTILL_ASSIGN_OR_RETURN(whole[name], GatherOnRank0(comm, tensor));
  }
  return whole;
}

absl::Status Fill(CheckpointDraft& draft, const WholeTensors& tensors, const ModelWriter& writer,
                  const TrainerState& state) {
  DISTILL_RETURN_IF_ERROR(writer(draft.folder()));
  WholeTensors on_host;
  std::map<std::string, TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    on_host[name] = ToSaved(tensor);
    views[name] = ViewOf(on_host[name]);
  }
  DISTILL_RETURN_IF_ERROR(draft.WriteTensors(views));
  return draft.Commit(state);
}

absl::Status Write(const TrainerOptions& options, const WholeTensors& tensors, const ModelWriter& writer,
                   const TrainerState& state) {
  DISTILL_ASSIGN_OR_RETURN(CheckpointDraft draft, CheckpointDraft::Begin(options.output_dir, state.step));
  const absl::Status filled = CatchTorch([&] { return Fill(draft, tensors, writer, state); });
  if (!filled.ok()) {
    draft.Discard();
    return filled;
  }
  return RemoveOldCheckpoints(options.output_dir, options.save_total_limit, state.step);
}

bool WantsNewest(const TrainerOptions& options) {
  const std::string lower = absl::AsciiStrToLower(options.resume_from_checkpoint);
  return lower == "latest" || lower == "true";
}

// Rank 0 alone: reads the tensors, whole, into `whole`.
absl::StatusOr<TrainerState> Read(const TrainerOptions& options, const TensorState& tensors, WholeTensors& whole) {
  absl::StatusOr<Checkpoint> read =
      WantsNewest(options) ? ReadNewestCheckpoint(options.output_dir) : ReadCheckpoint(options.resume_from_checkpoint);
  if (WantsNewest(options) && read.status().code() == absl::StatusCode::kNotFound) {
    LogInfo(absl::StrCat("no checkpoint in ", options.output_dir, " to resume from: starting anew"));
    return TrainerState();
  }
  DISTILL_ASSIGN_OR_RETURN(const Checkpoint checkpoint, std::move(read));
  for (const auto& [name, tensor] : tensors) {
    const TensorView* view = checkpoint.tensors->Find(name);
    if (view == nullptr || view->shape != tensor.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat(checkpoint.folder, " is of another model: ", name, " has shape ", ShapeToString(tensor.shape),
                       view == nullptr ? " here, and is missing there"
                                       : absl::StrCat(" here, ", ShapeToString(view->shape), " there")));
    }
    const bool is_spread = !tensor.parts.empty();
    whole[name] = is_spread ? torch::empty(tensor.shape, tensor.mine.options().device(torch::kCPU)) : tensor.mine;
    CopyFromView(*view, whole[name]);
  }
  LogInfo(absl::StrCat("resuming from ", checkpoint.folder, " at step ", checkpoint.state.step));
  return checkpoint.state;
}

void RestoreRandomState(const RunContext& run, const TrainerState& state) {
  const bool fits = static_cast<int>(state.random_states.size()) == run.world_size() &&
                    state.random_states[run.rank()].size() == RandomState(run.device()).size();
  if (fits) return SetRandomState(run.device(), state.random_states[run.rank()]);
  if (run.rank() != 0) return;
  LogWarning(absl::StrCat("the checkpoint is of ", state.random_states.size(),
                          " ranks or of another kind of device: random states start anew"));
}

void WarnOfOtherSettings(const TrainerOptions& options, const TrainerState& state) {
  const std::map<std::string, std::string> saved(state.settings.begin(), state.settings.end());
  for (const auto& [name, value] : options.resolved_config) {
    const auto found = saved.find(name);
    if (found != saved.end() && found->second != value && name != "resume_from_checkpoint") {
      LogWarning(absl::StrCat("resuming with ", name, " = ", value, "; the checkpoint was made with ", found->second));
    }
  }
}

absl::StatusOr<std::string> BroadcastBytes(Communicator& comm, std::string bytes) {
  int64_t size = static_cast<int64_t>(bytes.size());
  DISTILL_RETURN_IF_ERROR(comm.Broadcast(&size, 1, DType::kInt64, 0));
  bytes.resize(size);
  DISTILL_RETURN_IF_ERROR(comm.Broadcast(bytes.data(), size, DType::kUInt8, 0));
  return bytes;
}

}  // namespace

absl::Status SaveCheckpoint(RunContext& run, const TrainerOptions& options, const TensorState& tensors,
                            const ModelWriter& writer, TrainerState state) {
  DISTILL_ASSIGN_OR_RETURN(state.random_states, RandomStatesOfAllRanks(run));
  state.settings = options.resolved_config;
  DISTILL_ASSIGN_OR_RETURN(const WholeTensors whole, GatherAll(run.communicator(), tensors));
  const absl::Status mine = run.rank() == 0 ? Write(options, whole, writer, state) : absl::OkStatus();
  return Annotate(Agree(run.communicator(), mine), absl::StrCat("saving the checkpoint of step ", state.step));
}

bool WantsToResume(const TrainerOptions& options) {
  const std::string lower = absl::AsciiStrToLower(options.resume_from_checkpoint);
  return !lower.empty() && lower != "false" && lower != "none";
}

absl::Status CheckOutputFolder(const TrainerOptions& options) {
  if (options.output_dir.empty() || WantsToResume(options)) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const std::string found, FindNewestCheckpoint(options.output_dir));
  if (found.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "output_dir: ", options.output_dir, " holds checkpoints of another run (", found,
      "): set resume_from_checkpoint to latest to go on with it, choose another output_dir, or remove that folder"));
}

absl::StatusOr<TrainerState> RestoreCheckpoint(RunContext& run, const TrainerOptions& options,
                                               const TensorState& tensors) {
  absl::StatusOr<TrainerState> read = TrainerState{};
  absl::Status mine;
  WholeTensors whole;  // on rank 0
  if (run.rank() == 0) mine = CatchTorch([&] { return (read = Read(options, tensors, whole)).status(); });
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), mine));
  DISTILL_ASSIGN_OR_RETURN(const std::string bytes, BroadcastBytes(run.communicator(), Serialize(*read)));
  DISTILL_ASSIGN_OR_RETURN(const TrainerState state, ParseTrainerState(bytes, options.resume_from_checkpoint));
  if (state.step == 0) return state;

  for (const auto& [name, tensor] : tensors) {
    DISTILL_RETURN_IF_ERROR(SpreadFromRank0(run.communicator(), whole[name], tensor));
  }
  RestoreRandomState(run, state);
  if (run.rank() == 0) WarnOfOtherSettings(options, state);
  return state;
}

}  // namespace distill
