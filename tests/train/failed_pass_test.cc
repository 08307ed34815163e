// What ranks say about a pass that throws, or whose loss is not finite.
#include <limits>
#include <memory>
#include <vector>

#include <torch/nn/modules/linear.h>

#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/collate.h"
#include "libdistill/task/make_task.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/trainer.h"
#include "libdistill/train/trainer_options.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

namespace distill {
namespace {

using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;

constexpr int64_t kBadSample = 5;

struct TwoLayers : torch::nn::Module {
  TwoLayers() {
    torch::manual_seed(1);
    first = register_module("first", torch::nn::Linear(2, 8));
    second = register_module("second", torch::nn::Linear(8, 1));
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first = nullptr, second = nullptr;
};

// Of which one is no number, or has a value too many.
enum class Bad { kNumber, kShape };

std::shared_ptr<Dataset> Points(Bad bad) {
  std::vector<Sample> samples;
  for (int64_t i = 0; i < 16; ++i) {
    const bool is_bad = i == kBadSample;
    const float x =
        is_bad && bad == Bad::kNumber ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(i) / 16;
    std::vector<float> xs = {x, 1};
    if (is_bad && bad == Bad::kShape) xs.push_back(2);
    samples.push_back({.tensors = {{"x", HostTensor(std::move(xs))}, {"y", HostTensor(std::vector<float>{x})}}});
  }
  return MakeDataset(std::move(samples));
}

absl::StatusOr<std::unique_ptr<Task>> MakeNetTask(const World& world, std::shared_ptr<TwoLayers> net, Bad bad) {
  const ShardOptions options{.rows_per_rank = 1, .accumulation_steps = 2};
  DISTILL_ASSIGN_OR_RETURN(auto sharder, DataSharder::Create(Points(bad), world.rank, world.world_size, options));
  auto batches = MakeBatches(std::move(sharder), [](auto rows) { return StackRows(rows); });
  return MakeTask(std::move(batches), {.forward = [net](const TensorBatch& batch) {
                    const torch::Tensor error = net->forward(batch["x"]) - batch["y"];
                    return Losses{{"loss", error.square().sum(), batch.rows()}};
                  }});
}

TrainerOptions OneEpoch() {
  TrainerOptions options{.learning_rate = 0.01};
  options.max_non_finite_steps = 1;
  options.num_train_epochs = 1;
  options.disable_tqdm = true;
  return options;
}

absl::Status FitNet(const World& world, Bad bad) {
  DISTILL_ASSIGN_OR_RETURN(auto communicator, CreateCommunicator(world, {}));
  RunContext run(world, std::move(communicator), torch::kCPU);
  auto net = std::make_shared<TwoLayers>();
  DISTILL_ASSIGN_OR_RETURN(auto task, MakeNetTask(world, net, bad));
  DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(run, net, OneEpoch()));
  return trainer->Fit(*task).status();
}

TEST_CASE("a loss that is not finite is told with rank, micro-batch, sample and the first module that gave it") {
  CHECK(Failures(RunRanks(2, absl::Seconds(60), [](const World& world) {
          return ExpectError(
              FitNet(world, Bad::kNumber), absl::StatusCode::kInternal,
              {"the loss of rank ", "micro-batch ", " of 2, sample 5; first in what is given to first (aten::addmm)"});
        })) == "");
}

TEST_CASE("shapes that do not match are told with step, rank, micro-batch, sample and module") {
  CHECK(Failures(RunRanks(2, absl::Seconds(60), [](const World& world) {
          return ExpectError(FitNet(world, Bad::kShape), absl::StatusCode::kInternal,
                             {"step ", "micro-batch ", " of 2, sample 5, in first (aten::addmm): torch: ", "1x3"});
        })) == "");
}

// A teacher of 2^20 weights beside the net, and data of 4 x 2^18 features.
absl::Status FitWithoutMemory(const World& world) {
  DISTILL_ASSIGN_OR_RETURN(auto communicator, CreateCommunicator(world, {}));
  RunContext run(world, std::move(communicator), torch::kCPU);
  auto net = std::make_shared<TwoLayers>();
  std::vector<Sample> samples;
  for (int i = 0; i < 4; ++i) samples.push_back({.tensors = {{"x", HostTensor(std::vector<float>(1 << 18))}}});
  DISTILL_ASSIGN_OR_RETURN(auto sharder, DataSharder::Create(MakeDataset(std::move(samples)), world.rank,
                                                             world.world_size, {.rows_per_rank = 1}));
  auto batches = MakeBatches(std::move(sharder), [](auto rows) { return StackRows(rows); });
  TaskParts<TensorBatch> parts;
  parts.forward = [](const TensorBatch&) -> Losses {
    throw StatusError(absl::ResourceExhaustedError("out of host memory: take smaller batches"));
  };
  parts.teacher = torch::nn::Linear(torch::nn::LinearOptions(1 << 10, 1 << 10).bias(false)).ptr();
  const auto task = MakeTask(std::move(batches), std::move(parts));
  DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(run, net, OneEpoch()));
  return trainer->Fit(*task).status();
}

TEST_CASE("where memory runs out, the teacher's weights and the training data have lines of their own") {
  CHECK(Failures(RunRanks(2, absl::Seconds(60), [](const World& world) {
          return ExpectError(
              FitWithoutMemory(world), absl::StatusCode::kResourceExhausted,
              {"out of host memory: take smaller batches\nmemory of rank ", "in micro-batch 1 of 1, sample ",
               "\n    0.004 GiB  teacher's weights\n    0.004 GiB  training data\n", "GiB  all else in use "});
        })) == "");
}

}  // namespace
}  // namespace distill
