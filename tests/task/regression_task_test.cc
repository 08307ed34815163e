// A small net that learns a function: float tensors, a loss of one term, and a mean as its evaluation.
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>

#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/collate.h"
#include "libdistill/task/make_task.h"
#include "tests/support/catch.h"
#include "tests/task/prove_task.h"

namespace distill::regression_task {
namespace {

struct Mlp : torch::nn::Module {
  Mlp() {
    torch::manual_seed(1);
    first = register_module("first", torch::nn::Linear(2, 16));
    second = register_module("second", torch::nn::Linear(16, 1));
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first = nullptr, second = nullptr;
};

std::shared_ptr<Dataset> Points(uint64_t seed, int64_t count) {
  std::vector<Sample> samples;
  for (int64_t i = 0; i < count; ++i) {
    Random random(seed, static_cast<uint64_t>(i));
    const auto a = static_cast<float>(random.Uniform()), b = static_cast<float>(random.Uniform());
    samples.push_back(
        {.tensors = {{"x", HostTensor(std::vector<float>{a, b})}, {"y", HostTensor(std::vector<float>{a * a - b})}}});
  }
  return MakeDataset(std::move(samples));
}

absl::StatusOr<Batches<TensorBatch>> Deal(const World& world, std::shared_ptr<Dataset> points) {
  const ShardOptions options{.rows_per_rank = testing::kGlobalRows / world.world_size};
  DISTILL_ASSIGN_OR_RETURN(auto sharder, DataSharder::Create(std::move(points), world.rank, world.world_size, options));
  return MakeBatches(std::move(sharder), [](auto rows) { return StackRows(rows); });
}

absl::StatusOr<testing::TaskToProve> Make(const World& world) {
  auto net = std::make_shared<Mlp>();
  DISTILL_ASSIGN_OR_RETURN(auto training, Deal(world, Points(1, 22)));
  DISTILL_ASSIGN_OR_RETURN(auto held_out, Deal(world, Points(2, 7)));
  auto task = MakeTask(std::move(training), {.forward = [net](const TensorBatch& batch) {
                         const torch::Tensor error = net->forward(batch["x"]) - batch["y"];
                         return Losses{{"loss", error.square().sum(), batch.rows()}};
                       }});
  task->SetHeldOut(std::move(held_out));
  return testing::TaskToProve{net, std::move(task)};
}

TEST_CASE("a regression is trained, evaluated, killed and resumed like any task") {
  testing::ProveTask(Make, {.learning_rate = 0.05, .steps = 40, .metric = "loss", .at_most = 0.05});
}

}  // namespace
}  // namespace distill::regression_task
