// The frame of a training program: who this process is, who its peers are, and one place where errors end.
//
//   int main(int argc, char** argv) {
//     return distill::Run({}, [&](distill::RunContext& run) -> absl::Status { ... });
//   }
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <c10/core/Device.h>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libdistill/comm/busy_phase.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/run/run_options.h"
#include "libdistill/world/world.h"

namespace distill {

class LanguageModel;
class ShardedBlocks;

class RunContext {
 public:
  using Clock = std::chrono::steady_clock;

  // `began`: when the process did, for age().
  RunContext(World world, std::unique_ptr<Communicator> communicator, c10::Device device,
             Clock::time_point began = Clock::now())
      : world_(std::move(world)), communicator_(std::move(communicator)), device_(device), began_(began) {}
  const World& world() const { return world_; }
  int rank() const { return world_.rank; }
  int world_size() const { return world_.world_size; }
  Communicator& communicator() { return *communicator_; }
  c10::Device device() const { return device_; }
  // How long ago this run began.
  absl::Duration age() const { return absl::FromChrono(Clock::now() - began_); }
  // Around a training loop: the others wait comm_timeout_seconds for this rank. Before the first one and after each,
  // when it loads and writes what it needs, they wait for up to phase_timeout_seconds (comm/busy_phase.h). Trainer::Fit
  // does it, and so may a loop of the program's own. This rank alone.
  template <class Loop>
  auto WhileTraining(Loop&& loop) {
    beside_training_.reset();
    has_trained_ = true;
    const absl::Cleanup ends = [this] { WorkBesideTraining(); };
    return std::forward<Loop>(loop)();
  }
  void WorkBesideTraining() {
    beside_training_.emplace(*communicator_,
                             has_trained_ ? "at work after training" : "getting ready (reading data, loading models)");
  }
  // Models that ShardFrozen sharded, while they live.
  std::vector<std::shared_ptr<ShardedBlocks>> frozen() const {
    std::vector<std::shared_ptr<ShardedBlocks>> models;
    for (const auto& model : frozen_) {
      if (auto lives = model.lock()) models.push_back(std::move(lives));
    }
    return models;
  }

 private:
  friend absl::Status ShardFrozen(RunContext& run, LanguageModel& model);

  World world_;
  std::unique_ptr<Communicator> communicator_;
  c10::Device device_;
  const Clock::time_point began_;
  std::optional<BusyPhase> beside_training_;
  bool has_trained_ = false;
  std::vector<std::weak_ptr<ShardedBlocks>> frozen_;
};

// Reads the environment, lets the ranks meet, calls `body` on each, and turns its status into an exit code: 0, 2 for
// errors of the user's input (InvalidArgument, NotFound, DataLoss, FailedPrecondition, PermissionDenied),
// kExitCheckpointed for Cancelled, 1 for the rest. An error that a rank returns is printed once, by name of the rank;
// one that a rank meets before `body` (a device that it lacks, its input) ends the others at once with the same code.
// Exceptions out of `body` become errors too.
int Run(const RunOptions& options, const std::function<absl::Status(RunContext&)>& body);

// Shards a model that a run does not train, a teacher that does not fit, say: ShardBlocks (shard/sharded_models.h) over
// the ranks of `run` and on its device; the run's trainer then takes part in the model's passes. Every rank must call
// it; blocks.
[[nodiscard]] absl::Status ShardFrozen(RunContext& run, LanguageModel& model);

}  // namespace distill
