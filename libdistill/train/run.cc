#include "libdistill/train/run.h"

#include <cstdio>
#include <exception>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/identity.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/device.h"

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
    default:
      return 1;
  }
}

bool IsLostPeer(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kDeadlineExceeded;
}

absl::StatusOr<std::unique_ptr<RunContext>> Start(const RunOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(World world, ReadWorld());
  SetIdentity({.rank = world.rank, .world_size = world.world_size, .host = world.host});
  UseShareOfCores(world);
  DISTILL_ASSIGN_OR_RETURN(const c10::Device device, ChooseDevice(options.device, world));
  CommunicatorOptions communicator_options = options.communicator;
  communicator_options.device_index = device.is_cuda() ? device.index() : 0;
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator, CreateCommunicator(world, communicator_options));
  return std::make_unique<RunContext>(std::move(world), std::move(communicator), device);
}

void Print(const absl::Status& status) { std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str()); }

}  // namespace

int Run(const RunOptions& options, const std::function<absl::Status(RunContext&)>& body) {
  absl::StatusOr<std::unique_ptr<RunContext>> run = absl::UnknownError("not started");
  const absl::Status started = CatchTorch([&] { return (run = Start(options)).status(); });
  if (!started.ok()) {
    Print(GetIdentity().world_size == 1 ? started : Annotate(started, DescribeIdentity()));
    return ExitCode(started);
  }
  const absl::Status mine = CatchTorch([&] { return body(**run); });
  // Ranks that failed alone meet the others here, or in the first collective of what the others do next (every public
  // call of the trainer begins with the same agreement), so that all end with the same error, printed once.
  absl::Status agreed = Agree((*run)->communicator(), mine);
  // A rank that failed first has left by then; what it told the others is their result, not that it is gone.
  if (!mine.ok() && !agreed.ok() && IsLostPeer(agreed) && !IsLostPeer(mine)) agreed = mine;
  const bool is_shared = agreed.ok() == mine.ok() && agreed.code() == mine.code();
  if (!agreed.ok() && ((*run)->rank() == 0 || !is_shared || IsLostPeer(agreed))) Print(agreed);
  return ExitCode(agreed);
}

}  // namespace distill
