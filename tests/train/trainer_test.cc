// The Trainer on a module, a loss and batches of a user's own.
#include "libdistill/train/trainer.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/comm/create.h"
#include "libdistill/store/files.h"
#include "libdistill/store/safetensors.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

class Folder {
 public:
  Folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "distill-train-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

RunContext Alone() { return RunContext(World(), CreateAloneCommunicator(), c10::kCPU); }

// Dropout makes the losses depend on torch's random state.
struct Net : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::Dropout dropout;
  explicit Net(uint64_t seed) : dropout(0.2) {
    torch::manual_seed(seed);
    first = register_module("first", torch::nn::Linear(4, 16));
    second = register_module("second", torch::nn::Linear(16, 1));
    register_module("dropout", dropout);
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(dropout(torch::tanh(first(x)))); }
};

// Rows whose target is a function of them, two micro-batches of different sizes a step, ten steps an epoch.
class Rows : public StepSource {
 public:
  explicit Rows(std::shared_ptr<Net> net) : net_(std::move(net)) {}

  int64_t steps_per_epoch() const override { return 10; }
  std::vector<MicroStep> NextStep() override {
    Random random(state_.seed, static_cast<uint64_t>(state_.epoch * 10 + state_.row));
    std::vector<MicroStep> steps;
    for (const int64_t rows : {5, 3}) {
      std::vector<float> values(rows * 4);
      for (float& value : values) value = static_cast<float>(random.Uniform());
      const torch::Tensor x = torch::tensor(values).view({rows, 4});
      steps.push_back(
          {.loss_count = rows, .num_tokens = rows, .num_samples = rows, .forward = [this, x] { return Loss(x); }});
    }
    if (++state_.row == 10) state_ = {.epoch = state_.epoch + 1, .row = 0, .seed = state_.seed};
    ++steps_;
    return steps;
  }
  ShardState state() const override { return state_; }
  absl::Status Restore(const ShardState& state) override {
    state_ = state;
    return absl::OkStatus();
  }

  int64_t fails_at = -1;         // a step whose forward pass throws
  int64_t not_finite_from = -1;  // steps from here on have an infinite loss
  int64_t not_finite_until = 1 << 20;
  int64_t extra_count = 0;

 private:
  LossSum Loss(const torch::Tensor& x) {
    if (steps_ == fails_at) throw std::runtime_error("the disk is gone");
    const auto dtype = net_->first->weight.scalar_type();
    torch::Tensor loss = (net_->forward(x.to(dtype)).squeeze(1).to(torch::kFloat32) - x.sum(1)).square().sum();
    if (not_finite_from > 0 && steps_ >= not_finite_from && steps_ < not_finite_until) {
      loss = loss * std::numeric_limits<double>::infinity();
    }
    return {.loss = loss, .count = x.size(0) + extra_count, .sums = {{"rows", torch::tensor(double(x.size(0)))}}};
  }

  std::shared_ptr<Net> net_;
  ShardState state_{.epoch = 0, .row = 0, .seed = 42};
  int64_t steps_ = 0;
};

TrainerOptions OptionsFor(const std::string& output_dir) {
  TrainerOptions options;
  options.output_dir = output_dir;
  options.max_steps = 23;
  options.learning_rate = 0.02;
  options.save_steps = 5;
  options.resolved_config = {{"learning_rate", "0.02"}};
  return options;
}

// Everything in metrics.jsonl but the speed.
std::vector<std::string> Records(const std::string& output_dir) {
  const std::string text = ReadFile(output_dir + "/metrics.jsonl").value();
  std::vector<std::string> records;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    records.emplace_back(line.substr(0, line.find(",\"tokens_per_second\"")));
  }
  return records;
}

absl::StatusOr<TrainResult> Train(const std::shared_ptr<Net>& net, Rows& rows, const TrainerOptions& options) {
  RunContext run = Alone();
  auto trainer = Trainer::Create(run, net, options);
  if (!trainer.ok()) return trainer.status();
  return (*trainer)->Fit(rows);
}

double LossOf(const std::string& record) {
  const size_t begin = record.find("\"loss\":") + 7;
  return std::stod(record.substr(begin));
}

}  // namespace

TEST_CASE("a user's module learns from a user's loss and batches") {
  const Folder out;
  auto net = std::make_shared<Net>(1);
  Rows rows(net);
  const auto result = Train(net, rows, OptionsFor(out.path()));
  REQUIRE(result.status() == absl::OkStatus());
  CHECK(result->steps == 23);
  const std::vector<std::string> records = Records(out.path());
  REQUIRE(records.size() == 23);
  CHECK(absl::StartsWith(records[0], "{\"step\":1,\"loss\":"));
  for (const char* key : {"\"rows\":1.0", "\"grad_norm\":", "\"learning_rate\":0.0", "\"epoch\":0.1"}) {
    CHECK(absl::StrContains(records[0], key));
  }
  CHECK(LossOf(records.back()) < 0.3 * LossOf(records.front()));
  double sum = 0;
  for (const std::string& record : records) sum += LossOf(record);
  CHECK(result->train_loss == Approx(sum / 23).epsilon(1e-12));
  CHECK(result->metrics.at("epoch") == Approx(2.3));
  for (const char* name : {"train_runtime", "train_samples_per_second", "train_tokens_per_second", "train_loss"}) {
    CHECK(result->metrics.count(name) == 1);
  }
  const auto file = SafetensorsFile::Open(out.path() + "/model.safetensors");
  REQUIRE(file.ok());
  CHECK(file->tensors().size() == 4);
  const TensorView* weight = file->Find("first.weight");
  REQUIRE(weight != nullptr);
  CHECK(static_cast<const float*>(weight->data)[0] == net->first->weight[0][0].item<float>());
}

TEST_CASE("the mean over micro-batches is over rows, not over micro-batches") {
  auto net = std::make_shared<Net>(1);
  net->dropout->p(0.0);
  Rows probe(net);
  double sum = 0;
  for (const MicroStep& step : probe.NextStep()) sum += step.forward().loss.item<double>();
  const Folder out;
  Rows rows(net);
  TrainerOptions options = OptionsFor(out.path());
  options.max_steps = 1;
  REQUIRE(Train(net, rows, options).status() == absl::OkStatus());
  CHECK(LossOf(Records(out.path())[0]) == Approx(sum / 8).epsilon(1e-6));
}

TEST_CASE("a run that fails and is resumed goes on bit for bit as if nothing had happened") {
  const bool bf16 = GENERATE(false, true);
  const Folder out;
  TrainerOptions options = OptionsFor(out.path() + "/whole");
  options.bf16 = bf16;
  auto whole = std::make_shared<Net>(1);
  Rows whole_rows(whole);
  REQUIRE(Train(whole, whole_rows, options).status() == absl::OkStatus());

  options.output_dir = out.path() + "/broken";
  options.save_total_limit = 2;
  auto broken = std::make_shared<Net>(1);
  Rows broken_rows(broken);
  broken_rows.fails_at = 18;
  const auto failed = Train(broken, broken_rows, options);
  CHECK(absl::StrContains(failed.status().message(), "the disk is gone"));
  CHECK_FALSE(FolderExists(options.output_dir + "/checkpoint-5"));
  CHECK(FolderExists(options.output_dir + "/checkpoint-15"));

  auto resumed = std::make_shared<Net>(7);  // other weights and another random state: both come from the checkpoint
  Rows resumed_rows(resumed);
  options.resume_from_checkpoint = GENERATE("latest", "true");
  const auto result = Train(resumed, resumed_rows, options);
  REQUIRE(result.status() == absl::OkStatus());
  CHECK(result->steps == 23);
  CHECK(Records(options.output_dir) == Records(out.path() + "/whole"));
  CHECK(torch::equal(resumed->first->weight, whole->first->weight));
  CHECK(resumed->first->weight.scalar_type() == (bf16 ? torch::kBFloat16 : torch::kFloat32));
}

TEST_CASE("a checkpoint of another model is refused by the tensor's name") {
  const Folder out;
  auto net = std::make_shared<Net>(1);
  Rows rows(net);
  REQUIRE(Train(net, rows, OptionsFor(out.path())).ok());
  TrainerOptions options = OptionsFor(out.path());
  options.resume_from_checkpoint = out.path() + "/checkpoint-20";
  auto other = std::make_shared<Net>(1);
  other->second = other->replace_module("second", torch::nn::Linear(16, 2));
  Rows other_rows(other);
  const auto result = Train(other, other_rows, options);
  CHECK(result.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(result.status().message(), "second."));
}

TEST_CASE("a loss that counts other tokens than the batch holds is refused with both numbers") {
  auto net = std::make_shared<Net>(1);
  Rows rows(net);
  rows.extra_count = 2;
  const auto result = Train(net, rows, OptionsFor(""));
  CHECK(result.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(result.status().message(), "7"));
  CHECK(absl::StrContains(result.status().message(), "5"));
}

TEST_CASE("an update that is not finite is left out, and training goes on") {
  const Folder out;
  auto net = std::make_shared<Net>(1);
  Rows rows(net);
  rows.not_finite_from = 3;
  rows.not_finite_until = 7;
  const auto result = Train(net, rows, OptionsFor(out.path()));
  REQUIRE(result.status() == absl::OkStatus());
  CHECK(std::isfinite(result->train_loss));
  CHECK(torch::isfinite(net->first->weight).all().item<bool>());
  const std::vector<std::string> records = Records(out.path());
  CHECK(absl::StrContains(records[2], "\"loss\":null"));
  CHECK(LossOf(records.back()) < LossOf(records.front()));
}

TEST_CASE("five updates in a row that are not finite end the run") {
  auto net = std::make_shared<Net>(1);
  Rows rows(net);
  rows.not_finite_from = 4;
  const auto result = Train(net, rows, OptionsFor(""));
  CHECK(result.status().code() == absl::StatusCode::kInternal);
  CHECK(absl::StrContains(result.status().message(), "step 8"));
  CHECK(absl::StrContains(result.status().message(), "loss"));
  CHECK(torch::isfinite(net->first->weight).all().item<bool>());
}

TEST_CASE("rows beyond the active ones are saved as they were") {
  auto net = std::make_shared<Net>(1);
  const torch::Tensor before = net->first->weight.detach().clone();
  Rows rows(net);
  RunContext run = Alone();
  auto trainer = Trainer::Create(run, net, OptionsFor(""));
  REQUIRE(trainer.ok());
  (*trainer)->SetActiveRows("first.weight", 10);
  REQUIRE((*trainer)->Fit(rows).ok());
  CHECK(torch::equal(net->first->weight.narrow(0, 10, 6), before.narrow(0, 10, 6)));
  CHECK_FALSE(torch::equal(net->first->weight.narrow(0, 0, 10), before.narrow(0, 0, 10)));
}

TEST_CASE("options out of range are refused by name before anything is trained") {
  RunContext run = Alone();
  const auto error = [&](const auto& spoil) {
    TrainerOptions options;
    spoil(options);
    return std::string(Trainer::Create(run, std::make_shared<Net>(1), options).status().message());
  };
  CHECK(absl::StrContains(error([](TrainerOptions& o) { o.num_train_epochs = 0; }), "num_train_epochs"));
  CHECK(absl::StrContains(error([](TrainerOptions& o) { o.learning_rate = -1; }), "learning_rate"));
  CHECK(absl::StrContains(error([](TrainerOptions& o) { o.warmup_ratio = 2; }), "warmup_ratio"));
  CHECK(absl::StrContains(error([](TrainerOptions& o) { o.lr_scheduler_type = "steps"; }), "lr_scheduler_type"));
}

}  // namespace distill
