// The Trainer with modules, batches and losses of a user's own, on one rank; several ranks are in tests/multirank.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/random.h"
#include "libdistill/core/vectors.h"
#include "libdistill/data/token_dataset.h"
#include "libdistill/store/files.h"
#include "libdistill/store/safetensors.h"
#include "libdistill/train/agreed_task.h"
#include "libdistill/train/trainer.h"
#include "libdistill/train/trainer_options.h"
#include "tests/support/catch.h"
#include "tests/support/counted_task.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

RunContext Alone() { return RunContext(World{}, CreateAloneCommunicator(), torch::kCPU); }

// A user's own module and batches: points of a line, weighted unevenly into micro-batches.
struct Line : torch::nn::Module {
  Line() {
    weight = register_parameter("weight", torch::zeros({1, 1}));
    bias = register_parameter("bias", torch::zeros({1}));
  }
  torch::Tensor forward(const torch::Tensor& x) { return x.matmul(weight) + bias; }
  torch::Tensor weight, bias;
};

class Points : public testing::CountedTask {
 public:
  explicit Points(Line& line, int64_t count_error = 0, int64_t nan_from = 1000, int64_t nan_to = 1000)
      : line_(line), count_error_(count_error), nan_from_(nan_from), nan_to_(nan_to) {}

  int64_t steps_per_epoch() const override { return 10; }
  std::vector<std::string> Reported() const override { return {"absolute"}; }
  absl::StatusOr<std::vector<MicroStep>> NextStep() override {
    Random random(7, made_++);
    std::vector<MicroStep> steps;
    for (int64_t size : {1, 5, 2}) {
      std::vector<float> xs;
      for (int64_t i = 0; i < size; ++i) xs.push_back(static_cast<float>(random.Uniform() * 2 - 1));
      const bool is_nan = made_ >= nan_from_ && made_ < nan_to_;
      steps.push_back(
          {.counts = {size}, .num_tokens = size, .num_samples = size, .forward = [=, this](const PassScale&) {
             const torch::Tensor x = torch::tensor(xs).view({size, 1});
             const torch::Tensor error = line_.forward(x) - (3 * x + 0.5);
             torch::Tensor loss = error.square().sum();
             if (is_nan) loss = loss * std::numeric_limits<float>::quiet_NaN();
             return Losses{{"loss", loss, size + count_error_}, {"absolute", error.abs().sum(), size}};
           }});
    }
    return steps;
  }

 private:
  Line& line_;
  int64_t count_error_, nan_from_, nan_to_;
};

TrainerOptions Options(int64_t steps) {
  TrainerOptions options;
  options.max_steps = steps;
  options.learning_rate = 0.05;
  options.lr_scheduler_type = SchedulerType::kConstant;
  options.weight_decay = 0;
  options.max_grad_norm = 0;
  options.save_steps = 0;
  options.logging_steps = 0;
  return options;
}

std::vector<std::string> Lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("a user's own module, batches and loss are trained") {
  RunContext run = Alone();
  auto line = std::make_shared<Line>();
  TrainerOptions options = Options(400);
  const testing::TempFolder folder;
  options.output_dir = folder.path();
  options.logging_steps = 100;
  auto trainer = Trainer::Create(run, line, options);
  REQUIRE(trainer.ok());
  Points points(*line);
  const auto result = (*trainer)->Fit(points);
  REQUIRE(result.ok());
  CHECK(result->steps == 400);
  CHECK(line->weight.item<double>() == Approx(3.0).margin(1e-2));
  CHECK(line->bias.item<double>() == Approx(0.5).margin(1e-2));
  CHECK(result->metrics.count("train_samples_per_second") == 1);

  const auto lines = Lines(options.output_dir + "/metrics.jsonl");
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].find("\"absolute\"") != std::string::npos);
  const auto saved = SafetensorsFile::Open(options.output_dir + "/model.safetensors");
  REQUIRE(saved.ok());
  CHECK(static_cast<const float*>(saved->Load("bias")->data)[0] == line->bias.item<float>());
}

TEST_CASE("logging_first_step records the first step besides those of logging_steps") {
  const auto steps_of = [](bool first) {
    RunContext run = Alone();
    auto line = std::make_shared<Line>();
    TrainerOptions options = Options(5);
    const testing::TempFolder folder;
    options.output_dir = folder.path();
    options.logging_steps = 2;
    options.logging_first_step = first;
    auto trainer = Trainer::Create(run, line, options);
    REQUIRE(trainer.ok());
    Points points(*line);
    REQUIRE((*trainer)->Fit(points).ok());
    std::string steps;
    for (const std::string& record : Lines(folder / "metrics.jsonl")) {
      absl::StrAppend(&steps, record.substr(0, record.find(',')), "} ");
    }
    return steps;
  };
  CHECK(steps_of(false) == "{\"step\":2} {\"step\":4} {\"step\":5} ");
  CHECK(steps_of(true) == "{\"step\":1} {\"step\":2} {\"step\":4} {\"step\":5} ");
}

TEST_CASE("bf16: auto computes in bfloat16 where the device multiplies it by itself") {
  TrainerOptions options;
  const auto type = [&](Switch bf16) {
    options.bf16 = bf16;
    return WorkingType(options, torch::kCPU);
  };
  CHECK(type(Switch::kFalse) == torch::kFloat32);
  CHECK(type(Switch::kTrue) == torch::kBFloat16);
  CHECK(type(Switch::kAuto) == (CpuMultipliesBf16() ? torch::kBFloat16 : torch::kFloat32));
  options.fp16 = true;
  CHECK(type(Switch::kAuto) == torch::kFloat16);
}

TEST_CASE("the gradient is divided once by all tokens of the step, not per micro-batch") {
  RunContext run = Alone();
  auto line = std::make_shared<Line>();
  TrainerOptions options = Options(1);
  const testing::TempFolder folder;
  options.output_dir = folder.path();
  options.logging_steps = 1;
  auto trainer = Trainer::Create(run, line, options);
  REQUIRE(trainer.ok());
  Line whole;
  Points points(whole);
  torch::Tensor sum;
  const auto steps = points.NextStep();
  REQUIRE(steps.ok());
  for (const MicroStep& step : *steps) {
    const torch::Tensor loss = step.forward({}).Find("loss")->sum;
    sum = sum.defined() ? sum + loss : loss;
  }
  (sum / 8).backward();
  const double norm = std::hypot(whole.weight.grad().item<double>(), whole.bias.grad().item<double>());

  Points same(*line);
  REQUIRE((*trainer)->Fit(same).ok());
  const std::string logged = Lines(options.output_dir + "/metrics.jsonl").at(0);
  const double found = std::stod(logged.substr(logged.find("\"grad_norm\":") + 12));
  CHECK(found == Approx(norm).epsilon(1e-5));
}

TEST_CASE("an update that is not finite is left out, and the weights stay") {
  RunContext run = Alone();
  auto line = std::make_shared<Line>();
  auto trainer = Trainer::Create(run, line, Options(50));
  REQUIRE(trainer.ok());
  Points points(*line, 0, /*nan_from=*/10, /*nan_to=*/13);
  REQUIRE((*trainer)->Fit(points).ok());
  CHECK(std::isfinite(line->weight.item<double>()));
}

TEST_CASE("buckets updated as they arrive give the bits of those that wait for a norm that never clips") {
  const auto train = [](double max_grad_norm, int64_t bucket_bytes) {
    RunContext run = Alone();
    auto line = std::make_shared<Line>();
    TrainerOptions options = Options(20);
    options.weight_decay = 0.1;
    options.max_grad_norm = max_grad_norm;
    options.bucket_bytes = bucket_bytes;
    auto trainer = Trainer::Create(run, line, options);
    REQUIRE(trainer.ok());
    Points points(*line, 0, /*nan_from=*/10, /*nan_to=*/13);
    REQUIRE((*trainer)->Fit(points).ok());
    return std::vector<float>{line->weight.item<float>(), line->bias.item<float>()};
  };
  const std::vector<float> waited = train(1e9, 1);
  CHECK(train(0, 1) == waited);
  CHECK(train(0, 1 << 20) == waited);
}

TEST_CASE("training stops when updates stay non-finite, and says at which step") {
  RunContext run = Alone();
  auto line = std::make_shared<Line>();
  auto trainer = Trainer::Create(run, line, Options(50));
  REQUIRE(trainer.ok());
  Points points(*line, 0, /*nan_from=*/10, /*nan_to=*/100);
  const auto status = (*trainer)->Fit(points).status();
  CHECK(std::string(status.message()).find("step 14") != std::string::npos);
}

std::vector<std::string> Checkpoints(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (absl::StartsWith(name, "checkpoint-")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_CASE("while updates are left out nothing is saved or pruned, and what was due then is saved after") {
  const auto checkpoints = [](int64_t steps, int64_t save_steps) {
    testing::TempFolder folder;
    RunContext run = Alone();
    auto line = std::make_shared<Line>();
    TrainerOptions options = Options(steps);
    options.output_dir = folder.path();
    options.save_steps = save_steps;
    options.save_total_limit = save_steps == 1 ? 1 : 0;
    auto trainer = Trainer::Create(run, line, options);
    REQUIRE(trainer.ok());
    Points points(*line, 0, /*nan_from=*/10, /*nan_to=*/13);
    REQUIRE((*trainer)->Fit(points).ok());
    return Checkpoints(folder.path());
  };
  CHECK(checkpoints(11, 1) == std::vector<std::string>{"checkpoint-9"});
  CHECK(checkpoints(15, 10) == std::vector<std::string>{"checkpoint-13", "checkpoint-15"});
}

TEST_CASE("weights that are not finite after the last step are not saved") {
  testing::TempFolder folder;
  RunContext run = Alone();
  auto line = std::make_shared<Line>();
  TrainerOptions options = Options(11);
  options.output_dir = folder.path();
  options.max_non_finite_steps = 100;
  line->weight.data().fill_(std::numeric_limits<float>::infinity());
  auto trainer = Trainer::Create(run, line, options);
  REQUIRE(trainer.ok());
  Points points(*line);
  const absl::Status status = (*trainer)->Fit(points).status();
  CHECK(absl::IsInternal(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("is not finite after the last step"));
  CHECK_FALSE(FileExists(folder.path() + "/model.safetensors"));
}

TEST_CASE("a loss that counts other tokens than the batch is an error with both numbers") {
  RunContext run = Alone();
  auto line = std::make_shared<Line>();
  auto trainer = Trainer::Create(run, line, Options(5));
  REQUIRE(trainer.ok());
  Points points(*line, /*count_error=*/1);
  const auto status = (*trainer)->Fit(points).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()).find("'loss' counted 2 in a batch of 1") != std::string::npos);
}

TEST_CASE("every option is among what ranks compare, to its last digit") {
  const auto fingerprint = [](const TrainerOptions& options) { return FingerprintOf(Line(), torch::kCPU, options); };
  const TrainerOptions same;
  const std::vector<std::function<void(TrainerOptions&)>> changes = {
      [](TrainerOptions& o) { o.output_dir = "x"; },
      [](TrainerOptions& o) { o.num_train_epochs = 2; },
      [](TrainerOptions& o) { o.max_steps = 2; },
      [](TrainerOptions& o) { o.learning_rate *= 1 + 1e-12; },
      [](TrainerOptions& o) { o.weight_decay = 0; },
      [](TrainerOptions& o) { o.adam_beta1 = 0.8; },
      [](TrainerOptions& o) { o.adam_beta2 = 0.99; },
      [](TrainerOptions& o) { o.adam_epsilon = 1e-6; },
      [](TrainerOptions& o) { o.warmup_ratio = 0; },
      [](TrainerOptions& o) { o.lr_scheduler_type = SchedulerType::kLinear; },
      [](TrainerOptions& o) { o.max_grad_norm = 0; },
      [](TrainerOptions& o) { o.bf16 = Switch::kTrue; },
      [](TrainerOptions& o) { o.logging_steps = 2; },
      [](TrainerOptions& o) { o.save_steps = 2; },
      [](TrainerOptions& o) { o.save_total_limit = 2; },
      [](TrainerOptions& o) { o.eval_steps = 2; },
      [](TrainerOptions& o) { o.resume_from_checkpoint = "latest"; },
      [](TrainerOptions& o) { o.seed = 1; },
      [](TrainerOptions& o) { o.bucket_bytes = 1; },
      [](TrainerOptions& o) { o.zero_stage = 1; },
      [](TrainerOptions& o) { o.gradient_compression = GradientCompression::kBf16; },
      [](TrainerOptions& o) {
        o.resolved_config = {{"a", "b"}};
      }};
  for (size_t i = 0; i < changes.size(); ++i) {
    INFO("change " << i);
    TrainerOptions other;
    changes[i](other);
    CHECK(fingerprint(other) != fingerprint(same));
  }
}

TEST_CASE("options out of range are refused by name") {
  RunContext run = Alone();
  const auto refused = [&](auto change) {
    TrainerOptions options = Options(5);
    change(options);
    return std::string(Trainer::Create(run, std::make_shared<Line>(), options).status().message());
  };
  CHECK(refused([](TrainerOptions& o) { o.learning_rate = -1; }).find("learning_rate") != std::string::npos);
  CHECK(refused([](TrainerOptions& o) { o.zero_stage = 4; }).find("zero_stage") != std::string::npos);
  CHECK(refused([](TrainerOptions& o) { o.adam_beta2 = 1; }).find("adam_beta2") != std::string::npos);
  CHECK(refused([](TrainerOptions& o) { o.adam_epsilon = 0; }).find("adam_epsilon") != std::string::npos);
  CHECK(refused([](TrainerOptions& o) {
          o.gradient_compression = static_cast<GradientCompression>(7);
        }).find("gradient_compression") != std::string::npos);
  CHECK(refused([](TrainerOptions& o) { o.warmup_ratio = 2; }).find("warmup_ratio") != std::string::npos);
  CHECK(refused([](TrainerOptions& o) {
          o.lr_scheduler_type = static_cast<SchedulerType>(70);
        }).find("lr_scheduler_type") != std::string::npos);
  CHECK(refused([](TrainerOptions& o) {
          o.max_steps = 0;
          o.num_train_epochs = 0;
        }).find("num_train_epochs") != std::string::npos);
}

}  // namespace
}  // namespace distill
