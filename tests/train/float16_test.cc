// Training in float16 with a loss scale: what float32 gives, within its rounding; what overflows is left out
// everywhere.
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/loss_scale.h"
#include "libdistill/train/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/counted_task.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;
using testing::TempFolder;

constexpr auto kLimit = absl::Seconds(120);

struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(5);
    first = register_parameter("first", torch::randn({6, 6}) * 0.4);
    bias = register_parameter("bias", torch::zeros({6}));
    head = register_parameter("head", torch::randn({3, 6}) * 0.4);
  }
  torch::Tensor Loss(const torch::Tensor& input) {
    const torch::Tensor x = torch::tanh(input.to(first.scalar_type()).matmul(first) + bias);
    return x.matmul(head.t()).to(torch::kFloat32).square().sum();
  }
  torch::Tensor Flat() const {
    return torch::cat({first.detach().flatten(), bias.detach(), head.detach().flatten()}).to(torch::kFloat32);
  }
  torch::Tensor first, bias, head;
};

struct Case {
  TrainerOptions options = {};
  // What a step's loss is multiplied by on a rank.
  std::function<double(int64_t step, int rank)> weight = [](int64_t, int) { return 1.0; };
};

Case Float16(int64_t steps) {
  Case c;
  c.options = {.max_steps = steps, .learning_rate = 0.01, .fp16 = true, .logging_steps = 0, .save_steps = 0};
  c.options.lr_scheduler_type = SchedulerType::kConstant;
  c.options.warmup_ratio = 0;
  c.options.initial_loss_scale = 1024;
  return c;
}

struct Seen {
  std::vector<double> scales;          // of each step
  std::vector<torch::Tensor> weights;  // before each step, and after the last
  double loss = 0;
};

// The same global batches of four rows, each a token, for 1, 2 and 4 ranks; one micro-batch a row.
class Rows : public testing::CountedTask {
 public:
  Rows(Net& net, const World& world, const Case& c, Seen& seen) : net_(net), world_(world), case_(c), seen_(seen) {}
  absl::StatusOr<std::vector<MicroStep>> NextStep() override {
    seen_.weights.push_back(net_.Flat());
    std::vector<MicroStep> steps;
    const int64_t step = made_++;
    for (int64_t row = world_.rank; row < 4; row += world_.world_size) {
      steps.push_back(
          {.counts = {1}, .num_tokens = 1, .num_samples = 1, .forward = [this, step, row](const PassScale& scale) {
             if (row == world_.rank) seen_.scales.push_back(scale.gradient_scale * 4);
             const torch::Tensor x = torch::arange(6).to(torch::kFloat32) * 0.1 * (row + 1.0) + step;
             return Losses{{"loss", net_.Loss(torch::sin(x)) * case_.weight(step, world_.rank), 1}};
           }});
    }
    return steps;
  }

 private:
  Net& net_;
  const World& world_;
  const Case& case_;
  Seen& seen_;
};

absl::StatusOr<Seen> Train(const World& world, const Case& c) {
  torch::set_num_threads(1);
  DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.timeout = absl::Seconds(60)}));
  RunContext run(world, std::move(comm), torch::kCPU);
  auto net = std::make_shared<Net>();
  DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(run, net, c.options));
  Seen seen;
  Rows rows(*net, world, c, seen);
  DISTILL_ASSIGN_OR_RETURN(const TrainResult result, trainer->Fit(rows));
  seen.weights.push_back(net->Flat());
  seen.loss = result.train_loss;
  return seen;
}

absl::Status ExpectScales(const Seen& seen, const std::vector<double>& expected) {
  return Expect(seen.scales == expected, absl::StrCat("the scales were ", absl::StrJoin(seen.scales, " ")));
}

absl::Status ExpectUpdates(const Seen& seen, const std::vector<bool>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool updated = !torch::equal(seen.weights[i], seen.weights[i + 1]);
    DISTILL_RETURN_IF_ERROR(
        Expect(updated == expected[i], absl::StrCat("step ", i, updated ? " changed" : " did not change", " weights")));
    DISTILL_RETURN_IF_ERROR(Expect(torch::isfinite(seen.weights[i + 1]).all().item<bool>(), "weights are not finite"));
  }
  return absl::OkStatus();
}

}  // namespace

TEST_CASE("the loss scale halves at once, and doubles after a window of good steps") {
  LossScale scale(8, 3);
  scale.StartStep(4);
  CHECK(scale.factor() == 2);
  scale.StartStep(5);  // as for 8 tokens
  CHECK(scale.factor() == 1);
  scale.StartStep(0);
  CHECK(scale.factor() == 8);
  for (const double expected : {8, 8, 16, 16, 16, 32}) {
    scale.NoteGood();
    CHECK(scale.scale() == expected);
  }
  scale.NoteGood();
  scale.NoteGood();
  for (const double expected : {16, 8, 4, 2, 1}) {
    CHECK(scale.Halve());
    CHECK(scale.scale() == expected);
  }
  CHECK_FALSE(scale.Halve());
  CHECK(scale.scale() == 1);
  scale.NoteGood();
  CHECK(scale.good_steps() == 1);
  scale.Restore(LossScale::kLargest, 2);
  scale.NoteGood();
  CHECK(scale.scale() == LossScale::kLargest);
}

// The learning rate of each step.
class SeesRates : public Observer {
 public:
  absl::Status OnStep(const StepRecord& record, TrainingControl&) override {
    for (const auto& [name, value] : record.values) {
      if (name == "learning_rate") rates.push_back(value);
    }
    return absl::OkStatus();
  }
  std::vector<double> rates;
};

TEST_CASE("in float16 a step that is left out does not advance the schedule") {
  const auto rates = [](int64_t infinite_step) {
    RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
    auto net = std::make_shared<Net>();
    Case c = Float16(6);
    c.options.warmup_ratio = 0.5;
    c.options.lr_scheduler_type = SchedulerType::kConstantWithWarmup;
    c.weight = [infinite_step](int64_t step, int) { return step == infinite_step ? HUGE_VAL : 1.0; };
    auto trainer = Trainer::Create(run, net, c.options);
    REQUIRE(trainer.ok());
    const auto seen = std::make_shared<SeesRates>();
    (*trainer)->AddObserver(seen);
    Seen unused;
    Rows rows(*net, run.world(), c, unused);
    REQUIRE((*trainer)->Fit(rows).ok());
    return seen->rates;
  };
  const std::vector<double> all = rates(-1), without = rates(1);
  REQUIRE(all.size() == 6);
  REQUIRE(without.size() == 6);
  CHECK(without[1] == all[1]);
  CHECK(without[2] == all[1]);  // again, since the step before it was left out
  CHECK(without[3] == all[2]);
  CHECK(all[1] < all[2]);
}

TEST_CASE("float16 on one and two ranks ends with what float32 gives, within its rounding, clipped or not") {
  for (const double max_grad_norm : {0.1, 0.0}) {
    for (const int ranks : {1, 2}) {
      INFO("max_grad_norm " << max_grad_norm << ", ranks " << ranks);
      CHECK(Failures(RunRanks(ranks, kLimit, [&](const World& world) -> absl::Status {
              Case c = Float16(10);
              c.options.max_grad_norm = max_grad_norm;
              DISTILL_ASSIGN_OR_RETURN(const Seen actual, Train(world, c));
              c.options.fp16 = false;
              DISTILL_ASSIGN_OR_RETURN(const Seen expected, Train(world, c));
              const double off = (actual.weights.back() - expected.weights.back()).abs().max().item<double>();
              const double moved = (expected.weights.front() - expected.weights.back()).abs().max().item<double>();
              DISTILL_RETURN_IF_ERROR(Expect(off < 0.03 * moved, absl::StrCat("weights are off by ", off)));
              return Expect(std::abs(actual.loss - expected.loss) < 2e-3 * expected.loss,
                            absl::StrCat("the loss is ", actual.loss, ", not ", expected.loss));
            })) == "");
    }
  }
}

TEST_CASE("a step that overflows, on whichever rank, is left out on all, and the scale halves until none does") {
  for (const int64_t zero_stage : {0, 1, 2}) {
    for (const double max_grad_norm : {1.0, 0.0}) {
      INFO("zero_stage " << zero_stage << ", max_grad_norm " << max_grad_norm);
      CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) -> absl::Status {
              Case c = Float16(6);
              c.options.max_grad_norm = max_grad_norm;
              c.options.zero_stage = zero_stage;
              // One rank's loss is far too large in the steps 2 and 3 only while the scale is above 256.
              c.weight = [](int64_t step, int rank) { return (step == 2 || step == 3) && rank == 1 ? 1e7 : 1.0; };
              DISTILL_ASSIGN_OR_RETURN(const Seen seen, Train(world, c));
              DISTILL_RETURN_IF_ERROR(ExpectScales(seen, {1024, 1024, 1024, 512, 256, 256}));
              return ExpectUpdates(seen, {true, true, false, false, true, true});
            })) == "");
    }
  }
}

TEST_CASE("a scale that is far too large comes down by itself") {
  CHECK(Failures(RunRanks(2, kLimit, [](const World& world) -> absl::Status {
          Case c = Float16(40);
          c.options.initial_loss_scale = LossScale::kLargest;
          DISTILL_ASSIGN_OR_RETURN(const Seen seen, Train(world, c));
          DISTILL_RETURN_IF_ERROR(Expect(seen.scales.back() <= 1 << 21, "the scale has not come down"));
          DISTILL_RETURN_IF_ERROR(Expect(torch::equal(seen.weights[0], seen.weights[15]), "a step was not left out"));
          return Expect(!torch::equal(seen.weights[0], seen.weights[40]), "nothing was trained");
        })) == "");
}

TEST_CASE("the scale doubles after a window of good steps") {
  CHECK(Failures(RunRanks(2, kLimit, [](const World& world) -> absl::Status {
          Case c = Float16(8);
          c.options.loss_scale_window = 3;
          c.weight = [](int64_t step, int) { return step == 4 ? 1e8 : 1.0; };  // the window begins anew
          DISTILL_ASSIGN_OR_RETURN(const Seen seen, Train(world, c));
          return ExpectScales(seen, {1024, 1024, 1024, 2048, 2048, 1024, 1024, 1024});
        })) == "");
}

TEST_CASE("a run that is resumed has the bits of one that is not, scale and window included") {
  for (const int64_t zero_stage : {0, 2}) {
    const TempFolder folder;
    CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) -> absl::Status {
            Case whole = Float16(9);
            whole.options.loss_scale_window = 3;
            whole.options.zero_stage = zero_stage;
            whole.weight = [](int64_t step, int rank) { return step == 1 && rank == 0 ? 1e8 : 1.0; };
            DISTILL_ASSIGN_OR_RETURN(const Seen expected, Train(world, whole));
            DISTILL_RETURN_IF_ERROR(ExpectScales(expected, {1024, 1024, 512, 512, 512, 1024, 1024, 1024, 2048}));
            Case part = whole;
            part.options.output_dir = folder.path();
            part.options.save_steps = 4;  // within a window, at another scale than the first
            part.options.max_steps = 4;
            DISTILL_RETURN_IF_ERROR(Train(world, part).status());
            part.options.max_steps = 9;
            part.options.resume_from_checkpoint = "latest";
            DISTILL_ASSIGN_OR_RETURN(const Seen actual, Train(world, part));
            DISTILL_RETURN_IF_ERROR(ExpectScales(actual, {512, 1024, 1024, 1024, 2048}));
            return Expect(torch::equal(actual.weights.back(), expected.weights.back()), "the weights differ");
          })) == "");
  }
}

TEST_CASE("what is not finite at the smallest scale either ends the run, with what to do") {
  Case c = Float16(50);
  c.options.initial_loss_scale = 16;
  c.weight = [](int64_t step, int) { return step < 3 ? 1.0 : 1e30; };
  CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) {
          return ExpectError(Train(world, c).status(), absl::StatusCode::kInternal,
                             {"step 8: the gradient of ", "is not finite, for the 5th step in a row",
                              "the loss scale is down to 1", "bf16: true", "learning_rate", "data"});
        })) == "");
}

// From here on without forks: torch has threads then.

TEST_CASE("a gradient too small for float16 survives with a scale, and is lost without one") {
  Case c = Float16(1);
  c.weight = [](int64_t, int) { return 1e-9; };
  c.options.max_grad_norm = 0;
  c.options.adam_epsilon = 1e-30;  // so that the size of the gradient does not matter
  c.options.initial_loss_scale = LossScale::kSmallest;
  const auto lost = Train(World{}, c);
  c.options.initial_loss_scale = 1 << 24;
  const auto kept = Train(World{}, c);
  c.options.fp16 = false;
  const auto expected = Train(World{}, c);
  REQUIRE((lost.ok() && kept.ok() && expected.ok()));
  const auto decayed = [](const Seen& seen) { return seen.weights[0] * (1 - 0.01 * 0.05); };
  CHECK((lost->weights[1] - decayed(*lost)).abs().max().item<double>() < 1e-3);   // by decay alone
  CHECK((kept->weights[1] - decayed(*kept)).abs().mean().item<double>() > 5e-3);  // by the learning rate
  CHECK((kept->weights[1] - expected->weights[1]).abs().max().item<double>() < 1e-3);
}

TEST_CASE("options and modules that float16 cannot be trained with are refused by name") {
  Case c = Float16(1);
  c.options.bf16 = Switch::kTrue;
  const absl::Status both = Train(World{}, c).status();
  CHECK(both.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(both.message(), "bf16 and fp16 are both true"));
  for (const double scale : {0.5, 0.0, -1.0, double{INFINITY}, double{NAN}}) {
    c = Float16(1);
    c.options.initial_loss_scale = scale;
    CHECK(absl::StrContains(Train(World{}, c).status().message(), "initial_loss_scale"));
  }
  c = Float16(1);
  c.options.loss_scale_window = 0;
  CHECK(absl::StrContains(Train(World{}, c).status().message(), "loss_scale_window"));

  RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
  auto net = std::make_shared<Net>();
  net->to(torch::kFloat16);
  c = Float16(1);
  c.options.fp16 = false;
  auto trainer = Trainer::Create(run, net, c.options);
  REQUIRE(trainer.ok());
  Seen seen;
  Rows rows(*net, run.world(), c, seen);
  const absl::Status narrow = (*trainer)->Fit(rows).status();
  CHECK(narrow.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(narrow.message(), "parameter first is in float16, which only fp16: true trains"));
}

TEST_CASE("a trainer that has trained in float16 continues in it") {
  RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
  auto net = std::make_shared<Net>();
  const Case c = Float16(2);
  auto trainer = Trainer::Create(run, net, c.options);
  REQUIRE(trainer.ok());
  Seen seen;
  for (int i = 0; i < 2; ++i) {
    Rows rows(*net, run.world(), c, seen);
    REQUIRE((*trainer)->Fit(rows).ok());
  }
  CHECK(seen.scales == std::vector<double>(4, 1024.0));
  CHECK(net->first.scalar_type() == torch::kFloat16);
}

}  // namespace distill
