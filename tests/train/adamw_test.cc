#include "libdistill/train/adamw.h"

#include "tests/support/catch.h"

namespace distill {
namespace {

constexpr AdamWOptions kOptions = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.3};

// Parameters of shapes [7, 5] (decays) and [9] (does not), beside torch's own optimizer over copies of them.
struct Pair {
  std::vector<TrainedParameter> ours;
  std::vector<torch::Tensor> theirs;

  explicit Pair(torch::Dtype dtype) {
    torch::manual_seed(1);
    for (const auto& shape : {std::vector<int64_t>{7, 5}, std::vector<int64_t>{9}}) {
      const torch::Tensor values = torch::randn(shape);
      torch::Tensor mine = values.to(dtype).clone().set_requires_grad(true);
      theirs.push_back(mine.detach().to(torch::kFloat32).clone().set_requires_grad(true));
      ours.push_back({"p" + std::to_string(shape.size()), mine, shape.size() >= 2, shape[0]});
    }
  }
};

}  // namespace

TEST_CASE("updates are those of torch's AdamW, without decay on vectors") {
  Pair pair(torch::kFloat32);
  AdamW ours(pair.ours, kOptions);
  GradientBuckets buckets(pair.ours, 1 << 20);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const bool decays : {true, false}) {
    auto options = std::make_unique<torch::optim::AdamWOptions>(0.0);
    options->betas({0.9, 0.95}).eps(1e-8).weight_decay(decays ? 0.3 : 0.0);
    groups.emplace_back(std::vector<torch::Tensor>{pair.theirs[decays ? 0 : 1]}, std::move(options));
  }
  torch::optim::AdamW theirs(groups, torch::optim::AdamWOptions(0.0));
  for (int step = 1; step <= 20; ++step) {
    const double learning_rate = 0.01 * step, divisor = 3.0;
    buckets.Zero();
    for (size_t i = 0; i < 2; ++i) {
      const torch::Tensor gradient = torch::randn(pair.theirs[i].sizes());
      const_cast<torch::Tensor&>(buckets.gradient(i)).copy_(gradient * divisor);
      pair.theirs[i].mutable_grad() = gradient;
    }
    for (auto& group : theirs.param_groups()) group.options().set_lr(learning_rate);
    ours.Step(buckets, learning_rate, divisor);
    theirs.step();
  }
  CHECK(ours.steps() == 20);
  for (size_t i = 0; i < 2; ++i) CHECK(torch::allclose(pair.ours[i].tensor, pair.theirs[i], 1e-5, 1e-6));
}

TEST_CASE("rows beyond the active ones keep their bits, decay included") {
  Pair pair(torch::kFloat32);
  pair.ours[0].active_rows = 4;
  const torch::Tensor before = pair.ours[0].tensor.detach().clone();
  AdamW optimizer(pair.ours, kOptions);
  GradientBuckets buckets(pair.ours, 1 << 20);
  for (size_t i = 0; i < 2; ++i) const_cast<torch::Tensor&>(buckets.gradient(i)).fill_(1.0);
  for (int step = 0; step < 3; ++step) optimizer.Step(buckets, 0.1, 1.0);
  const torch::Tensor after = pair.ours[0].tensor.detach();
  CHECK(torch::equal(after.narrow(0, 4, 3), before.narrow(0, 4, 3)));
  CHECK_FALSE((after.narrow(0, 0, 4) == before.narrow(0, 0, 4)).any().item<bool>());
  CHECK(optimizer.State()["exp_avg.p2"].narrow(0, 4, 3).abs().max().item<double>() == 0);
}

TEST_CASE("bfloat16 weights follow float32 masters, so that small updates are not lost") {
  Pair pair(torch::kBFloat16);
  const torch::Tensor start = pair.ours[1].tensor.detach().clone();
  AdamW optimizer(pair.ours, {.weight_decay = 0.0});
  GradientBuckets buckets(pair.ours, 1 << 20);
  for (int step = 0; step < 400; ++step) {
    for (size_t i = 0; i < 2; ++i) const_cast<torch::Tensor&>(buckets.gradient(i)).fill_(1.0);
    optimizer.Step(buckets, 1e-4, 1.0);
  }
  const torch::Tensor master = optimizer.State()["master.p1"];
  CHECK(master.scalar_type() == torch::kFloat32);
  CHECK(torch::equal(pair.ours[1].tensor.detach(), master.to(torch::kBFloat16)));
  // A step of 1e-4 is less than half a unit of bfloat16 near 1; together they are 0.04.
  CHECK(torch::allclose(master, start.to(torch::kFloat32) - 0.04, 1e-4, 1e-4));
}

}  // namespace distill
