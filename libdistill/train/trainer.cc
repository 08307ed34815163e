#include "libdistill/train/trainer.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "libdistill/checkpoint/output_lock.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/description.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/run/device.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/multiplies_bf16.h"
#include "libdistill/train/evaluation.h"
#include "libdistill/train/fitting.h"
#include "libdistill/train/trainer_state.h"

namespace distill {

torch::Dtype WorkingType(const TrainerOptions& options, c10::Device device) {
  if (options.fp16) return torch::kFloat16;
  const bool in_bf16 = options.bf16 == Switch::kAuto ? MultipliesBf16(device) : options.bf16 == Switch::kTrue;
  return in_bf16 ? torch::kBFloat16 : torch::kFloat32;
}

struct Trainer::Impl {
  RunContext& run;
  std::shared_ptr<torch::nn::Module> module;
  TrainerOptions options;
  std::vector<std::shared_ptr<Observer>> observers = {};
  std::unique_ptr<OutputLock> lock = nullptr;  // on rank 0, from Create to the end of Fit
  std::unique_ptr<Fitting> fitting = nullptr;  // while Fit runs

  // Rank 0 alone. FailedPrecondition: another run writes output_dir.
  absl::Status LockOutput() {
    if (run.rank() != 0 || options.output_dir.empty()) return absl::OkStatus();
    if (lock != nullptr) return lock->Confirm();
    DISTILL_ASSIGN_OR_RETURN(lock, OutputLock::Take(options.output_dir));
    return absl::OkStatus();
  }
};

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trainer::~Trainer() = default;

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(RunContext& run, std::shared_ptr<torch::nn::Module> module,
                                                         const TrainerOptions& options) {
  auto impl = std::unique_ptr<Impl>(new Impl{run, module, options});
  absl::Status mine = module == nullptr ? absl::InvalidArgumentError("a trainer needs a module") : absl::OkStatus();
  mine.Update(CheckOptions(options));
  if (run.rank() == 0 && mine.ok()) {
    mine = CheckOutputFolder(options);
    if (mine.ok()) mine = impl->LockOutput();
    if (mine.ok()) mine = CheckOutputFolder(options);  // another run may have ended in between
  }
  if (mine.ok()) {
    mine = CatchTorch([&]() -> absl::Status {
      DISTILL_RETURN_IF_ERROR(RequireWhole(*module));
      // A module that is to be sharded may not fit there, nor in this rank's memory.
      if (options.zero_stage < 3 || run.world_size() == 1) {
        for (GatedModel* gated : PartsOf<GatedModel>(*module)) gated->LoadBlocks();
        module->to(run.device());
      }
      return CheckBuffers(*module);
    });
  }
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), mine));
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(run.communicator(), FingerprintOf(*module, run.device(), options)));
  DISTILL_RETURN_IF_ERROR(CatchTorch([&]() -> absl::Status {
    const torch::NoGradGuard no_grad;
    DISTILL_RETURN_IF_ERROR(BroadcastParameters(run.communicator(), *module));
    return BroadcastBuffers(run.communicator(), *module);
  }));
  if (run.rank() == 0) WarnOfSlowType(run.device(), WorkingType(options, run.device()));
  return std::unique_ptr<Trainer>(new Trainer(std::move(impl)));
}

void Trainer::AddObserver(std::shared_ptr<Observer> observer) { impl_->observers.push_back(std::move(observer)); }

absl::StatusOr<TrainResult> Trainer::Fit(Task& task) {
  impl_->fitting = std::make_unique<Fitting>(impl_->run, impl_->module, impl_->options, impl_->observers, task);
  const absl::Cleanup ends = [this] { impl_->fitting.reset(), impl_->lock.reset(); };
  DISTILL_RETURN_IF_ERROR(Agree(impl_->run.communicator(), impl_->LockOutput()));  // of a second Fit
  return impl_->fitting->Run();
}

absl::StatusOr<MetricValues> Trainer::Evaluate(Evaluator& evaluator) {
  if (impl_->fitting != nullptr) return impl_->fitting->Evaluate(evaluator);  // an observer asks
  RunContext& run = impl_->run;
  const auto tensors = impl_->module->parameters();
  if (!tensors.empty() && tensors[0].device() != run.device()) {
    return absl::FailedPreconditionError(
        "Evaluate: with zero_stage 3 the module is on the host until Fit shards it: evaluate in Fit, by the task's "
        "evaluator, or after it");
  }
  // After a Fit that left it sharded nobody would take part for a rank without a batch.
  DISTILL_RETURN_IF_ERROR(RequireWhole(*impl_->module));
  return EvaluateOverRanks(run.communicator(), *impl_->module, {.trained = nullptr, .frozen = run.frozen()},
                           run.device(), evaluator);
}

}  // namespace distill
