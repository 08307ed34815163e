// Sharded training against training with everything everywhere: the same losses, weights and checkpoints, less memory.
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/adamw.h"
#include "libdistill/nn/weight_gate.h"
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

constexpr auto kLimit = absl::Seconds(120);

// Layers of odd sizes, so that slices cut parameters and the last ones reach beyond the end.
struct Net : torch::nn::Module, GatedModel {
  Net() {
    torch::manual_seed(5);
    for (int64_t l = 0; l < 5; ++l) {
      weights.push_back(register_parameter(absl::StrCat("weight", l), torch::randn({13, 13}) * 0.3));
      biases.push_back(register_parameter(absl::StrCat("bias", l), torch::zeros({13})));
    }
    padded = register_parameter("padded", torch::randn({7, 13}));
  }
  torch::Tensor Loss(const torch::Tensor& input) {
    torch::Tensor x = input.to(padded.scalar_type());
    BeginPass();
    for (size_t l = 0; l < weights.size(); ++l) {
      const auto layer = [this, l](const torch::Tensor& in) { return torch::tanh(in.matmul(weights[l]) + biases[l]); };
      x = RunBlock(l, layer, x, recomputes);
    }
    return x.matmul(padded.t()).to(torch::kFloat32).square().sum();
  }
  std::vector<std::vector<torch::Tensor>> BlockWeights() const override {
    std::vector<std::vector<torch::Tensor>> blocks;
    for (size_t l = 0; l < weights.size(); ++l) blocks.push_back({weights[l], biases[l]});
    return blocks;
  }
  std::vector<torch::Tensor> weights, biases;
  torch::Tensor padded;
  bool recomputes = false;
};

// The same global batches for any number of ranks that divides 12; micro-batches of one row. In step `nan_step` one
// rank's loss is not a number.
class Rows : public testing::CountedTask {
 public:
  Rows(Net& net, const World& world, int64_t nan_step, int64_t empty_step = -1, int64_t failing_step = -1,
       int64_t killed_step = -1)
      : net_(net),
        world_(world),
        nan_step_(nan_step),
        empty_step_(empty_step),
        failing_step_(failing_step),
        killed_step_(killed_step) {}
  // As a disk that is full after so many bytes of a file.
  void LimitFiles(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    file_limit_ = {.rlim_cur = bytes, .rlim_max = bytes};
  }
  absl::StatusOr<std::vector<MicroStep>> NextStep() override {
    std::vector<MicroStep> steps;
    const int64_t step = made_++;
    if (step == 1) setrlimit(RLIMIT_FSIZE, &file_limit_);
    for (int64_t row = world_.rank; row < 12; row += world_.world_size) {
      if (row == 11) continue;  // one rank has a micro-batch less
      const float first = step == nan_step_ && row == 1 ? NAN : 1.0f;
      const int64_t loss_count = step == empty_step_ ? 0 : 1;
      steps.push_back({.counts = {loss_count},
                       .num_tokens = 1,
                       .num_samples = 1,
                       .forward = [this, step, row, first](const PassScale&) {
                         if (step == killed_step_ && row == 4) raise(SIGKILL);
                         TORCH_CHECK_VALUE(step != failing_step_ || row != 4, "no such row");
                         const auto size = torch::TensorOptions().dtype(torch::kFloat32);
                         torch::Tensor x = torch::arange(13, size).mul_(0.1 * (row + 1) + step).sin_();
                         x[0] = first;
                         return Losses{{"loss", net_.Loss(x), 1}};
                       }});
    }
    return steps;
  }

 private:
  Net& net_;
  const World& world_;
  const int64_t nan_step_, empty_step_, failing_step_, killed_step_;
  rlimit file_limit_ = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
};

struct ZeroCase {
  int64_t stage = 0;
  bool bf16 = false;
  double max_grad_norm = 0.5;
  int64_t bucket_bytes = 2000;
  int64_t nan_step = -1, empty_step = -1;
  int64_t steps = 6;
  std::string folder = {}, resume = {};
  GradientCompression compression = GradientCompression::kNone;
  BackendPreference backend = BackendPreference::kAuto;
  bool fp16 = false;
  bool recomputes = false;  // in the sharded runs
  int64_t frozen_block = -1;
  int64_t failing_step = -1, killed_step = -1;
  rlim_t file_bytes = RLIM_INFINITY;  // on rank 0
};

struct Trained {
  std::vector<torch::Tensor> weights;
  double loss = 0;
};

absl::StatusOr<Trained> Train(const World& world, const ZeroCase& c) {
  torch::set_num_threads(1);
  setenv("FI_TCP_IFACE", "lo", 1);
  DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.backend = c.backend, .timeout = absl::Seconds(60)}));
  RunContext run(world, std::move(comm), torch::kCPU);
  auto net = std::make_shared<Net>();
  net->recomputes = c.recomputes && c.stage > 0;
  if (c.frozen_block >= 0) {
    const auto blocks = net->BlockWeights();
    for (const torch::Tensor& weight : blocks[static_cast<size_t>(c.frozen_block)]) weight.set_requires_grad(false);
  }
  TrainerOptions options = {.output_dir = c.folder,
                            .max_steps = c.steps,
                            .learning_rate = 0.01,
                            .max_grad_norm = c.max_grad_norm,
                            .bf16 = SwitchOf(c.bf16),
                            .fp16 = c.fp16,
                            .logging_steps = 0,
                            .save_steps = 3,
                            .resume_from_checkpoint = c.resume,
                            .bucket_bytes = c.bucket_bytes,
                            .gradient_compression = c.compression,
                            .zero_stage = c.stage};
  options.lr_scheduler_type = SchedulerType::kConstant;
  DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(run, net, options));
  Rows rows(*net, world, c.nan_step, c.empty_step, c.failing_step, c.killed_step);
  rows.trained_rows = {{"padded", 5}};
  if (world.rank == 0) rows.LimitFiles(c.file_bytes);
  DISTILL_ASSIGN_OR_RETURN(const TrainResult result, trainer->Fit(rows));
  Trained trained;
  for (const torch::Tensor& parameter : net->parameters()) trained.weights.push_back(parameter.detach().clone());
  trained.loss = result.train_loss;
  return trained;
}

absl::Status ExpectSame(const Trained& actual, const Trained& expected, double tolerance, const std::string& what) {
  for (size_t i = 0; i < expected.weights.size(); ++i) {
    const torch::Tensor difference = (actual.weights[i] - expected.weights[i]).abs().max();
    DISTILL_RETURN_IF_ERROR(Expect(difference.item<double>() <= tolerance,
                                   absl::StrCat(what, ": parameter ", i, " is off by ", difference.item<double>())));
  }
  return Expect(
      std::isfinite(actual.loss) && std::abs(actual.loss - expected.loss) <= tolerance * std::abs(expected.loss),
      absl::StrCat(what, ": the loss is ", actual.loss, ", not ", expected.loss));
}

absl::Status CompareStages(const World& world, const ZeroCase& plain) {
  DISTILL_ASSIGN_OR_RETURN(const Trained expected, Train(world, plain));
  for (const int64_t stage : {1, 2, 3}) {
    ZeroCase sharded = plain;
    sharded.stage = stage;
    DISTILL_ASSIGN_OR_RETURN(const Trained actual, Train(world, sharded));
    // A norm that is summed in another order may clip by a bit more or less; in bfloat16 a master beside the middle of
    // two numbers may then be rounded to the other one. Compressed, stage 2 rounds each micro-batch's gradients.
    const bool rounds = plain.bf16 || plain.fp16 || plain.compression != GradientCompression::kNone;
    DISTILL_RETURN_IF_ERROR(
        ExpectSame(actual, expected, rounds ? 0.01 : 1e-5, absl::StrCat("stage ", stage, " on ", world.world_size)));
  }
  return absl::OkStatus();
}

TEST_CASE("sharded runs end with the weights and the losses of one that is not") {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const bool bf16 : {false, true}) {
      for (const double max_grad_norm : {0.5, 0.0}) {
        for (const int64_t bucket_bytes : {1, 2000}) {
          const ZeroCase plain = {.bf16 = bf16, .max_grad_norm = max_grad_norm, .bucket_bytes = bucket_bytes};
          INFO(ranks << " ranks, bf16 " << bf16 << ", max_grad_norm " << max_grad_norm << ", buckets " << bucket_bytes);
          CHECK(Failures(RunRanks(ranks, kLimit, [&](const World& world) { return CompareStages(world, plain); })) ==
                "");
        }
      }
    }
  }
}

TEST_CASE("sharded runs in float16") {
  for (const double max_grad_norm : {0.5, 0.0}) {
    const ZeroCase plain = {.max_grad_norm = max_grad_norm, .fp16 = true};
    CHECK(Failures(RunRanks(3, kLimit, [&](const World& world) { return CompareStages(world, plain); })) == "");
  }
}

TEST_CASE("sharded runs over a fabric, and with compressed gradients") {
  for (const BackendPreference backend : {BackendPreference::kFabric, BackendPreference::kAuto}) {
    const ZeroCase plain = {
        .compression = backend == BackendPreference::kAuto ? GradientCompression::kBf16 : GradientCompression::kNone,
        .backend = backend};
    CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) { return CompareStages(world, plain); })) == "");
  }
}

TEST_CASE("blocks that are sharded are computed again in the backward pass with their weights there") {
  for (const bool bf16 : {false, true}) {
    const ZeroCase plain = {.bf16 = bf16, .recomputes = true};
    CHECK(Failures(RunRanks(3, kLimit, [&](const World& world) { return CompareStages(world, plain); })) == "");
  }
}

TEST_CASE("blocks that are not trained stay whole, wherever they are") {
  for (const int64_t block : {0, 2, 4}) {
    INFO("block " << block);
    const ZeroCase plain = {.frozen_block = block};
    CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) { return CompareStages(world, plain); })) == "");
  }
}

TEST_CASE("a step that is not finite on one rank is left out on all, sharded or not") {
  for (const double max_grad_norm : {0.5, 0.0}) {
    const ZeroCase plain = {.max_grad_norm = max_grad_norm, .bucket_bytes = 1, .nan_step = 2};
    CHECK(Failures(RunRanks(3, kLimit, [&](const World& world) -> absl::Status {
            DISTILL_ASSIGN_OR_RETURN(const Trained expected, Train(world, plain));
            for (const int64_t stage : {1, 2, 3}) {
              ZeroCase sharded = plain;
              sharded.stage = stage;
              DISTILL_ASSIGN_OR_RETURN(const Trained actual, Train(world, sharded));
              for (size_t i = 0; i < expected.weights.size(); ++i) {
                DISTILL_RETURN_IF_ERROR(Expect(torch::isfinite(actual.weights[i]).all().item<bool>(), "not finite"));
                DISTILL_RETURN_IF_ERROR(Expect(torch::allclose(actual.weights[i], expected.weights[i], 1e-4, 1e-5),
                                               absl::StrCat("stage ", stage, ": parameter ", i, " differs")));
              }
            }
            return absl::OkStatus();
          })) == "");
  }
}

TEST_CASE("a step without a token of the loss changes nothing, with and without clipping") {
  for (const int64_t stage : {0, 1, 2, 3}) {
    CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) -> absl::Status {
            const ZeroCase clips = {.stage = stage, .max_grad_norm = 1e9, .empty_step = 2};
            ZeroCase does_not = clips;
            does_not.max_grad_norm = 0;
            DISTILL_ASSIGN_OR_RETURN(const Trained expected, Train(world, clips));
            DISTILL_ASSIGN_OR_RETURN(const Trained actual, Train(world, does_not));
            return ExpectSame(actual, expected, 0, absl::StrCat("stage ", stage));
          })) == "");
  }
}

TEST_CASE("a checkpoint of a sharded run is resumed on another number of ranks and in another stage") {
  for (const bool bf16 : {false, true}) {
    const testing::TempFolder folder;
    const ZeroCase whole = {.bf16 = bf16};
    ZeroCase first = whole, second = whole;
    first.folder = second.folder = folder.path();
    first.stage = bf16 ? 3 : 1;
    first.steps = 3;
    second.resume = "latest";
    CHECK(Failures(RunRanks(3, kLimit, [&](const World& world) { return Train(world, first).status(); })) == "");
    for (const int64_t stage : {2, 3, 0}) {
      second.stage = stage;
      CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) -> absl::Status {
              ZeroCase undisturbed = whole;
              DISTILL_ASSIGN_OR_RETURN(const Trained expected, Train(world, undisturbed));
              ZeroCase resumed = second;
              resumed.resume = absl::StrCat(folder.path(), "/checkpoint-3");
              DISTILL_ASSIGN_OR_RETURN(const Trained actual, Train(world, resumed));
              return ExpectSame(actual, expected, bf16 ? 0.01 : 1e-5, absl::StrCat("stage ", stage));
            })) == "");
    }
  }
}

TEST_CASE("a disk that is full while parts are brought ends all ranks with one error, and leaves no half checkpoint") {
  for (const int64_t stage : {0, 1, 3}) {
    for (const rlim_t file_bytes : {3000, 9000}) {  // within the model's file, and within the state's
      INFO("stage " << stage << ", " << file_bytes << " bytes");
      const testing::TempFolder folder;
      const ZeroCase c = {.stage = stage, .folder = folder.path(), .file_bytes = file_bytes};
      CHECK(Failures(RunRanks(3, kLimit, [&](const World& world) -> absl::Status {
              const std::string file = file_bytes == 3000 ? "model.safetensors" : "optimizer.safetensors";
              return ExpectError(Train(world, c).status(), absl::StatusCode::kResourceExhausted,
                                 {"saving the checkpoint of step 3", file, "cannot write"});
            })) == "");
      for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        CHECK_FALSE(absl::StrContains(entry.path().string(), "checkpoint"));
      }
    }
  }
}

TEST_CASE("a rank keeps its share of the optimizer's state") {
  const Net net;
  const auto parameters = CollectParameters(net, {});
  REQUIRE(parameters.ok());
  const ShardPlan plan(ElementsOf(*parameters), PlanBuckets(ElementsOf(*parameters), ReverseOrder(11), 1 << 20), 4);
  int64_t all = 0;
  for (int shard = 0; shard < 4; ++shard) {
    std::vector<torch::Tensor> parts;
    for (size_t i = 0; i < parameters->size(); ++i) {
      const ShardPlan::Part part = plan.OfParameter(i, shard);
      parts.push_back((*parameters)[i].tensor.detach().view({-1}).narrow(0, part.begin, part.count).clone());
    }
    const AdamW optimizer(*parameters, {}, plan, shard, parts, parts);
    int64_t mine = 0;
    for (const auto& [name, tensor] : optimizer.State()) {
      CHECK(tensor.mine.storage().nbytes() == tensor.mine.nbytes());
      mine += static_cast<int64_t>(tensor.mine.nbytes());
    }
    CHECK(mine <= 12 * (5 * 13 * 14 + 7 * 13 + 64 + 11 * 32) / 4);
    all += mine;
  }
  CHECK(all == 12 * (5 * 13 * 14 + 7 * 13));
}

TEST_CASE("a micro-batch that fails on one rank ends the passes of all, with its error") {
  for (const int64_t stage : {0, 1, 2, 3}) {
    INFO("stage " << stage);
    CHECK(Failures(RunRanks(3, kLimit, [&](const World& world) -> absl::Status {
            const auto failed = Train(world, {.stage = stage, .failing_step = 2});
            return ExpectError(failed.status(), absl::StatusCode::kInvalidArgument, {"no such row"});
          })) == "");
  }
}

TEST_CASE("a rank that is lost in a sharded step is named by all that are left") {
  for (const int64_t stage : {1, 2, 3}) {
    INFO("stage " << stage);
    const auto outcomes = RunRanks(3, kLimit, [&](const World& world) -> absl::Status {
      const auto lost = Train(world, {.stage = stage, .killed_step = 2});
      return ExpectError(lost.status(), absl::StatusCode::kUnavailable, {"rank 1", "step 3"});
    });
    CHECK(outcomes[1].signal == SIGKILL);
    for (const int survivor : {0, 2}) {
      INFO(outcomes[survivor].status);
      CHECK(outcomes[survivor].status.ok());
    }
  }
}

TEST_CASE("a module whose weights are sharded is not trained anew") {
  CHECK(Failures(RunRanks(2, kLimit, [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.timeout = absl::Seconds(60)}));
          RunContext run(world, std::move(comm), torch::kCPU);
          auto net = std::make_shared<Net>();
          TrainerOptions options = {.max_steps = 3, .save_steps = 0};
          options.zero_stage = 3;
          DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(run, net, options));
          Rows rows(*net, world, -1, -1, /*failing_step=*/1);
          DISTILL_RETURN_IF_ERROR(
              ExpectError(trainer->Fit(rows).status(), absl::StatusCode::kInvalidArgument, {"no such row"}));
          DISTILL_RETURN_IF_ERROR(
              ExpectError(trainer->Fit(rows).status(), absl::StatusCode::kFailedPrecondition, {"loaded anew"}));
          return ExpectError(Trainer::Create(run, net, options).status(), absl::StatusCode::kFailedPrecondition,
                             {"loaded anew"});
        })) == "");
}

TEST_CASE("a module that does not tell of blocks is refused in stage 3") {
  CHECK(Failures(RunRanks(2, kLimit, [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.timeout = absl::Seconds(60)}));
          RunContext run(world, std::move(comm), torch::kCPU);
          auto module = std::make_shared<torch::nn::Module>();
          module->register_parameter("weight", torch::zeros({3}));
          TrainerOptions options = {.max_steps = 1, .save_steps = 0};
          options.zero_stage = 3;
          DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(run, module, options));
          Net net;
          Rows rows(net, world, -1);
          return ExpectError(trainer->Fit(rows).status(), absl::StatusCode::kInvalidArgument,
                             {"zero_stage", "blocks", "choose 2"});
        })) == "");
}

TEST_CASE("parameters of several types are refused, by name, before anything is trained") {
  CHECK(Failures(RunRanks(2, kLimit, [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.timeout = absl::Seconds(60)}));
          RunContext run(world, std::move(comm), torch::kCPU);
          auto net = std::make_shared<Net>();
          net->padded.set_data(net->padded.detach().to(torch::kBFloat16));
          TrainerOptions options = {.max_steps = 1, .save_steps = 0};
          options.zero_stage = 1;
          DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(run, net, options));
          Rows rows(*net, world, -1);
          return ExpectError(trainer->Fit(rows).status(), absl::StatusCode::kInvalidArgument, {"padded", "zero_stage"});
        })) == "");
}

}  // namespace
}  // namespace distill
