// Schedule, gradients of one rank and AdamW against transformers' formulas and torch's own optimizer.
#include <cmath>
#include <functional>
#include <limits>

#include <torch/optim/adamw.h>

#include "libdistill/comm/create.h"
#include "libdistill/gradients/adamw.h"
#include "libdistill/gradients/gradient_reducer.h"
#include "libdistill/train/trainer_options.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// Two matrices and a bias, with one use of each in its loss.
struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(3);
    first = register_parameter("first", torch::randn({5, 4}));
    second = register_parameter("second", torch::randn({3, 5}));
    bias = register_parameter("bias", torch::randn({3}));
  }
  torch::Tensor Loss(const torch::Tensor& x) {
    return (torch::tanh(x.to(first.scalar_type()).matmul(first.t())).matmul(second.t()) + bias).square().sum();
  }
  torch::Tensor first, second, bias;
};

std::vector<TrainedParameter> Parameters(const Net& net, const std::map<std::string, int64_t>& active_rows = {}) {
  auto parameters = CollectParameters(net, active_rows);
  REQUIRE(parameters.ok());
  return *parameters;
}

// Gradients of one rank, from one or more backward passes.
class Gradients {
 public:
  explicit Gradients(const std::vector<TrainedParameter>& parameters, int64_t bucket_bytes = 1 << 20) {
    auto made = GradientReducer::Create(*alone_, parameters, {.bucket_bytes = bucket_bytes});
    REQUIRE(made.ok());
    reducer_ = *std::move(made);
  }
  const GradientBuckets& Of(const std::vector<std::function<torch::Tensor()>>& losses) {
    reducer_->StartStep();
    for (size_t i = 0; i + 1 < losses.size(); ++i) {
      const GradientReducer::NoSync no_sync(*reducer_);
      losses[i]().backward();
    }
    losses.back()().backward();
    absl::Status mine;
    REQUIRE(reducer_->Finish(mine).ok());
    REQUIRE(mine.ok());
    return reducer_->buckets();
  }

 private:
  std::unique_ptr<Communicator> alone_ = CreateAloneCommunicator();
  std::unique_ptr<GradientReducer> reducer_;
};

double Rate(SchedulerType type, int64_t step) {
  TrainerOptions options{.learning_rate = 1.0};
  options.lr_scheduler_type = type;
  return ScheduleOf(options, 100).At(step).rate;
}

TEST_CASE("learning rates follow transformers' schedules") {
  // get_cosine_schedule_with_warmup(num_warmup_steps=10, num_training_steps=100) at its steps 0, 5, 10, 55, 99.
  CHECK(Rate(SchedulerType::kCosine, 1) == 0.0);
  CHECK(Rate(SchedulerType::kCosine, 6) == Approx(0.5));
  CHECK(Rate(SchedulerType::kCosine, 11) == Approx(1.0));
  CHECK(Rate(SchedulerType::kCosine, 56) == Approx(0.5));
  CHECK(Rate(SchedulerType::kCosine, 100) == Approx(0.5 * (1 + std::cos(M_PI * 89 / 90))));
  CHECK(Rate(SchedulerType::kLinear, 56) == Approx(0.5));
  CHECK(Rate(SchedulerType::kLinear, 100) == Approx(1.0 / 90));
  CHECK(Rate(SchedulerType::kConstant, 1) == 1.0);
  CHECK(Rate(SchedulerType::kConstantWithWarmup, 6) == Approx(0.5));
  CHECK(Rate(SchedulerType::kConstantWithWarmup, 77) == 1.0);
}

TEST_CASE("gradients of several backward passes add up in the buckets, whatever their size") {
  for (const int64_t bucket_bytes : {1, 64, 1 << 20}) {
    Net net;
    const auto parameters = Parameters(net);
    Gradients gradients(parameters, bucket_bytes);
    const torch::Tensor x = torch::randn({7, 4}), y = torch::randn({2, 4});
    Net plain;
    (plain.Loss(x) + plain.Loss(y)).backward();
    for (int round = 0; round < 3; ++round) {  // each step really starts anew; the second one has a plan of its own
      const GradientBuckets& buckets = gradients.Of({[&] { return net.Loss(x); }, [&] { return net.Loss(y); }});
      CHECK(buckets.num_buckets() == (bucket_bytes == 1 ? 3u : bucket_bytes == 64 ? 2u : 1u));
      double square = 0;
      for (size_t i = 0; i < parameters.size(); ++i) {
        const torch::Tensor expected = plain.parameters()[i].grad();
        CHECK(torch::allclose(buckets.gradient(i), expected, 1e-5, 1e-6));
        CHECK(parameters[i].tensor.grad().is_same(buckets.gradient(i)));
        square += expected.square().sum().item<double>();
      }
      CHECK(buckets.Norm() == Approx(std::sqrt(square)));
      CHECK(buckets.FirstNonFinite() == parameters.size());
    }
  }
}

TEST_CASE("bfloat16 gradients are added up in float32") {
  Net net;
  net.to(torch::kBFloat16);
  const auto parameters = Parameters(net);
  const torch::Tensor x = torch::randn({7, 4});
  net.Loss(x).backward();
  const torch::Tensor once = net.first.grad().to(torch::kFloat32);
  Gradients gradients(parameters);
  const GradientBuckets& buckets =
      gradients.Of(std::vector<std::function<torch::Tensor()>>(257, [&] { return net.Loss(x); }));
  CHECK(buckets.gradient(0).scalar_type() == torch::kFloat32);
  CHECK(torch::allclose(buckets.gradient(0), once * 257, 1e-5, 1e-5));  // 257 is no bfloat16 number
}

TEST_CASE("a gradient that is not finite is named") {
  Net net;
  Gradients gradients(Parameters(net));
  const GradientBuckets& buckets = gradients.Of({[&] {
    return net.Loss(torch::full({1, 4}, std::numeric_limits<float>::quiet_NaN()));
  }});
  CHECK_FALSE(std::isfinite(buckets.Norm()));
  CHECK(buckets.parameters()[buckets.FirstNonFinite()].name == "first");
}

// Of all buckets.
void Step(AdamW& optimizer, const GradientBuckets& gradients, double learning_rate, double divisor) {
  optimizer.StartStep(learning_rate, divisor);
  for (size_t b = 0; b < gradients.num_buckets(); ++b) optimizer.Update(gradients, b);
}

TEST_CASE("AdamW makes the updates of torch's AdamW, without decay on biases") {
  Net ours, theirs;
  const auto parameters = Parameters(ours);
  Gradients gradients(parameters);
  AdamW optimizer(parameters, {.weight_decay = 0.1});
  torch::optim::AdamW decayed({theirs.first, theirs.second}, torch::optim::AdamWOptions(0.01).weight_decay(0.1));
  torch::optim::AdamW plain({theirs.bias}, torch::optim::AdamWOptions(0.01).weight_decay(0.0));
  for (int step = 0; step < 20; ++step) {
    const torch::Tensor x = torch::randn({6, 4});
    Step(optimizer, gradients.Of({[&] { return ours.Loss(x); }}), 0.01, /*divisor=*/4.0);
    theirs.zero_grad();
    (theirs.Loss(x) / 4.0).backward();
    decayed.step();
    plain.step();
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    CHECK(torch::allclose(parameters[i].tensor, theirs.parameters()[i], 1e-4, 1e-6));
  }
  CHECK(optimizer.steps() == 20);
}

TEST_CASE("AdamW with groups makes the updates of torch's AdamW with them, with rates that change") {
  Net ours, theirs;
  auto parameters = Parameters(ours);
  const ParameterGroups groups = {{.pattern = "sec*", .learning_rate = 0.03},
                                  {.pattern = "bias", .learning_rate = 0.002, .weight_decay = 0.3}};
  REQUIRE(AssignGroups(groups, parameters).ok());
  Gradients gradients(parameters, /*bucket_bytes=*/64);  // two buckets, of which one has two groups
  AdamW optimizer(parameters, {.beta1 = 0.8, .epsilon = 1e-3, .weight_decay = 0.1, .groups = groups});
  const auto group_of = [](const torch::Tensor& parameter, double decay) {
    auto options = std::make_unique<torch::optim::AdamWOptions>(0.01);
    options->betas({0.8, 0.999}).eps(1e-3).weight_decay(decay);
    return torch::optim::OptimizerParamGroup({parameter}, std::move(options));
  };
  torch::optim::AdamW torchs(std::vector<torch::optim::OptimizerParamGroup>{
      group_of(theirs.first, 0.1), group_of(theirs.second, 0.1), group_of(theirs.bias, 0.3)});
  for (int step = 0; step < 20; ++step) {
    LearningRates rates = 0.01 / (step + 1);
    rates.of_groups = {0.03 / (step + 1), 0.002};
    const torch::Tensor x = torch::randn({6, 4});
    const GradientBuckets& buckets = gradients.Of({[&] { return ours.Loss(x); }});
    optimizer.StartStep(rates, /*divisor=*/4.0);
    for (size_t b = 0; b < buckets.num_buckets(); ++b) optimizer.Update(buckets, b);
    torchs.zero_grad();
    (theirs.Loss(x) / 4.0).backward();
    const double of_torch[] = {rates.rate, rates.of_groups[0], rates.of_groups[1]};
    for (size_t i = 0; i < 3; ++i) torchs.param_groups()[i].options().set_lr(of_torch[i]);
    torchs.step();
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    INFO(parameters[i].name);
    CHECK(torch::allclose(parameters[i].tensor, theirs.parameters()[i], 1e-4, 1e-6));
  }
}

TEST_CASE("a group without a parameter is named") {
  Net net;
  auto parameters = Parameters(net);
  const absl::Status refused = AssignGroups({{.pattern = "*"}, {.pattern = "day_*"}}, parameters);
  CHECK_THAT(std::string(refused.message()), Catch::Contains("no trained parameter is 'day_*'"));
  CHECK(AssignGroups({{.pattern = "first"}, {.pattern = "*"}}, parameters).ok());
  CHECK(parameters[0].group == 0);
  CHECK(parameters[2].group == 1);
}

TEST_CASE("a parameter whose elements do not lie in order is trained as one whose do") {
  Net plain, strided;
  strided.second.set_data(plain.second.detach().t().contiguous().t());
  strided.first.set_data(plain.first.detach().clone());
  REQUIRE_FALSE(strided.second.is_contiguous());
  for (Net* net : {&plain, &strided}) {
    const auto parameters = Parameters(*net);
    Gradients gradients(parameters);
    AdamW optimizer(parameters, {.weight_decay = 0.1});
    for (int step = 0; step < 3; ++step) {
      const torch::Tensor x = torch::full({6, 4}, 0.1 * (step + 1));
      Step(optimizer, gradients.Of({[&] { return net->Loss(x); }}), 0.01, 1.0);
    }
  }
  for (size_t i = 0; i < 3; ++i) CHECK(torch::allclose(plain.parameters()[i], strided.parameters()[i], 1e-5, 1e-6));
}

TEST_CASE("an update under a graph that still wants the old values is noticed") {
  Net net;
  const auto parameters = Parameters(net);
  Gradients gradients(parameters);
  AdamW optimizer(parameters, {});
  const GradientBuckets& buckets = gradients.Of({[&] { return net.Loss(torch::ones({1, 4})); }});
  const torch::Tensor late = net.Loss(torch::ones({1, 4}));
  Step(optimizer, buckets, 0.01, 1.0);
  CHECK_THROWS_AS(late.backward(), c10::Error);
}

TEST_CASE("rows beyond the active ones are never changed, not even by decay") {
  Net net;
  const torch::Tensor before = net.first.detach().clone();
  const auto parameters = Parameters(net, {{"first", 2}});
  Gradients gradients(parameters);
  AdamW optimizer(parameters, {.weight_decay = 0.5});
  Step(optimizer, gradients.Of({[&] { return net.Loss(torch::randn({6, 4})); }}), 0.1, 1.0);
  CHECK(torch::equal(net.first.narrow(0, 2, 3), before.narrow(0, 2, 3)));
  CHECK_FALSE(torch::allclose(net.first.narrow(0, 0, 2), before.narrow(0, 0, 2)));
}

TEST_CASE("small updates of a bfloat16 model are kept in its float32 masters") {
  Net net;
  const auto parameters = Parameters(net);
  AdamW optimizer(parameters, {});
  net.to(torch::kBFloat16);
  Gradients gradients(parameters);
  const torch::Tensor start = optimizer.State().at("master.bias").mine.clone();  // not rounded to bfloat16
  for (int step = 0; step < 200; ++step) {
    Step(optimizer, gradients.Of({[&] {
      return net.Loss(torch::ones({1, 4}));
    }}),
         1e-5, 1.0);  // far below bfloat16's resolution of these values
  }
  const torch::Tensor master = optimizer.State().at("master.bias").mine;
  CHECK((master - start).abs().min().item<double>() > 1e-3);
  CHECK(torch::equal(net.bias, master.to(torch::kBFloat16)));
}

TEST_CASE("parameters that cannot be trained are refused by name") {
  Net net;
  CHECK(CollectParameters(net, {{"third", 1}}).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(CollectParameters(net, {{"first", 6}}).status().code() == absl::StatusCode::kInvalidArgument);
  net.to(torch::kFloat64);
  const auto status = CollectParameters(net, {}).status();
  CHECK(std::string(status.message()).find("first") != std::string::npos);
}

}  // namespace
}  // namespace distill
