#include "libdistill/run/run.h"

#include <cstdio>

#include "libdistill/comm/agree.h"
#include "libdistill/comm/gpu.h"
#include "libdistill/core/description.h"
#include "libdistill/core/identity.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/run/device.h"
#include "libdistill/shard/sharded_models.h"
#include "libdistill/store/store.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/exact_float32.h"
#include "libdistill/tensor/large_pages.h"
#include "libdistill/world/process.h"

namespace distill {
namespace {

int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
      return 2;
    case absl::StatusCode::kCancelled:
      return kExitCheckpointed;
    default:
      return 1;
  }
}

bool IsLostPeer(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kDeadlineExceeded;
}

// `mine` gets what this rank failed at by itself.
absl::StatusOr<std::unique_ptr<RunContext>> Start(const RunOptions& options, RunContext::Clock::time_point began,
                                                  absl::Status& mine) {
  DISTILL_ASSIGN_OR_RETURN(World world, ReadWorld());
  SetIdentity({.rank = world.rank, .world_size = world.world_size, .host = world.host});
  UseShareOfCores(world);
  MultiplyFloat32Exactly();
  if (options.deterministic) UseDeterministicAlgorithms();
  SetStoreOptions(options.store);
  c10::Device device(c10::kCPU);
  mine = options.input;
  mine.Update(CheckOptions(options));
  if (mine.ok()) {
    mine = CatchTorch([&]() -> absl::Status {
      DISTILL_ASSIGN_OR_RETURN(device, ChooseDevice(options.device, world));
      return absl::OkStatus();
    });
  }
  CommunicatorOptions communicator_options = options.communicator;
  communicator_options.own_error = mine;
  communicator_options.device_index = device.is_cuda() ? device.index() : -1;
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator, CreateCommunicator(world, communicator_options));
  // That there is one the ranks have told one another: no error can come here.
  const std::string gpu = GpuAddress(communicator_options.device_index).value_or("");
  DISTILL_RETURN_IF_ERROR(UseOwnCores(*communicator, world, options.pin_threads, gpu));
  return std::make_unique<RunContext>(std::move(world), std::move(communicator), device, began);
}

// A run that was asked to leave did as it was told.
void Print(const absl::Status& status) {
  std::fprintf(stderr, "%s%s\n", absl::IsCancelled(status) ? "" : "error: ", std::string(status.message()).c_str());
}

// An error that every rank has is rank 0's to say: without its own name where it is its own.
void PrintStartError(const absl::Status& error, const absl::Status& mine) {
  if (GetIdentity().world_size == 1) return Print(error);
  if (!IsSharedError(error)) return Print(Annotate(error, DescribeIdentity()));
  if (GetIdentity().rank == 0) Print(mine.ok() ? error : mine);
}

}  // namespace

int Run(const RunOptions& options, const std::function<absl::Status(RunContext&)>& body) {
  const RunContext::Clock::time_point began = RunContext::Clock::now();
  PrepareProcess();
  UseLargePages();
  absl::StatusOr<std::unique_ptr<RunContext>> run = absl::UnknownError("not started");
  absl::Status mine;
  const absl::Status started = CatchTorch([&] { return (run = Start(options, began, mine)).status(); });
  if (!started.ok()) {
    PrintStartError(started, mine);
    return ExitCode(started);
  }
  (*run)->WorkBesideTraining();
  mine = CatchTorch([&] { return body(**run); });
  // Ranks that failed alone meet the others here, or in the first collective of what the others do next (every public
  // call of the trainer begins with the same agreement), so that all end with the same error, printed once.
  absl::Status agreed = Agree((*run)->communicator(), mine);
  // A rank that failed first has left by then; what it told the others is their result, not that it is gone.
  if (!mine.ok() && !agreed.ok() && IsLostPeer(agreed) && !IsLostPeer(mine)) agreed = mine;
  const bool is_shared = agreed.ok() == mine.ok() && agreed.code() == mine.code();
  if (!agreed.ok() && ((*run)->rank() == 0 || !is_shared || IsLostPeer(agreed))) Print(agreed);
  return ExitCode(agreed);
}

absl::Status ShardFrozen(RunContext& run, LanguageModel& model) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<ShardedBlocks> blocks,
                           ShardBlocks(run.communicator(), run.device(), model));
  if (blocks != nullptr) run.frozen_.push_back(blocks);
  return absl::OkStatus();
}

}  // namespace distill
