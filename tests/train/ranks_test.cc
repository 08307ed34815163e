// The Trainer on several ranks, one of which fails alone: all end with its error, promptly.
#include <signal.h>
#include <sys/resource.h>

#include <cstdlib>
#include <stdexcept>

#include <ATen/Context.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/token_dataset.h"
#include "libdistill/run/run.h"
#include "libdistill/store/files.h"
#include "libdistill/task/distiller.h"
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

constexpr auto kLimit = absl::Seconds(30);

absl::StatusOr<std::unique_ptr<RunContext>> Meet(const World& world) {
  torch::set_num_threads(1);
  DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.timeout = absl::Seconds(60)}));
  return std::make_unique<RunContext>(world, std::move(comm), torch::kCPU);
}

struct Point : torch::nn::Module {
  explicit Point(double start) {
    weight = register_parameter("weight", torch::full({3}, start));
    mean = register_buffer("mean", torch::full({2, 2}, start).t());
    flag = register_buffer("flag", torch::full({3}, start > 0, torch::kBool));
  }
  torch::Tensor weight, mean, flag;
};

class Steps : public testing::CountedTask {
 public:
  Steps(Point& point, int64_t throws_at, int64_t per_epoch = 10)
      : point_(point), throws_at_(throws_at), per_epoch_(per_epoch) {}
  int64_t steps_per_epoch() const override { return per_epoch_; }
  absl::StatusOr<std::vector<MicroStep>> NextStep() override {
    if (++made_ == throws_at_) throw std::runtime_error("the disk of the data is gone");
    return std::vector<MicroStep>{
        {.counts = {1}, .num_tokens = 1, .num_samples = 1, .forward = [this](const PassScale&) {
           return Losses{{"loss", (point_.weight - 1).square().sum(), 1}};
         }}};
  }

 private:
  Point& point_;
  int64_t throws_at_, per_epoch_;
};

TEST_CASE("a run is deterministic where that is asked, and in no other") {
  for (const bool deterministic : {true, false}) {
    CHECK(Failures(RunRanks(1, kLimit, [&](const World&) -> absl::Status {
            unsetenv("CUBLAS_WORKSPACE_CONFIG");
            const int code = Run({.deterministic = deterministic}, [&](RunContext&) {
              const at::Context& context = at::globalContext();
              const bool is_so = context.deterministicAlgorithms() && context.deterministicCuDNN() &&
                                 !context.deterministicAlgorithmsWarnOnly() && !context.benchmarkCuDNN() &&
                                 std::getenv("CUBLAS_WORKSPACE_CONFIG") != nullptr;
              const bool is_not = !context.deterministicAlgorithms() && !context.deterministicCuDNN() &&
                                  std::getenv("CUBLAS_WORKSPACE_CONFIG") == nullptr;
              return Expect(deterministic ? is_so : is_not, "LibTorch was told something else");
            });
            return Expect(code == 0, absl::StrCat("it ends with ", code));
          })) == "");
  }
}

TEST_CASE("a run multiplies float32 without TF32, also where cuDNN would take it by itself") {
  CHECK(Failures(RunRanks(1, kLimit, [&](const World&) -> absl::Status {
          at::globalContext().setAllowTF32CuDNN(true);
          const int code = Run({}, [&](RunContext&) {
            return Expect(!at::globalContext().allowTF32CuDNN(), "cuDNN may round float32 to TF32");
          });
          return Expect(code == 0, absl::StrCat("it ends with ", code));
        })) == "");
}

TrainerOptions Options() { return {.max_steps = 2000, .logging_steps = 1, .save_steps = 0}; }

// Whose passes report a term of their rank's own.
class OwnTerms : public Steps {
 public:
  OwnTerms(Point& point, std::string declared, std::string reported)
      : Steps(point, /*throws_at=*/-1), declared_(std::move(declared)), reported_(std::move(reported)) {}
  std::vector<std::string> Reported() const override { return {declared_}; }
  absl::StatusOr<std::vector<MicroStep>> NextStep() override {
    DISTILL_ASSIGN_OR_RETURN(std::vector<MicroStep> steps, Steps::NextStep());
    steps[0].forward = [this, forward = steps[0].forward](const PassScale& scale) {
      Losses losses = forward(scale);
      losses.terms.push_back({reported_, torch::full({}, 7.0), 2});
      return losses;
    };
    return steps;
  }

 private:
  const std::string declared_, reported_;
};

// That notes what its passes are told of how far the run is.
class Told : public Steps {
 public:
  explicit Told(Point& point) : Steps(point, /*throws_at=*/-1) {}
  absl::StatusOr<std::vector<MicroStep>> NextStep() override {
    DISTILL_ASSIGN_OR_RETURN(std::vector<MicroStep> steps, Steps::NextStep());
    steps[0].forward = [this, forward = steps[0].forward](const PassScale& scale) {
      progress.push_back(scale.progress);
      return forward(scale);
    };
    return steps;
  }
  std::vector<double> progress;
};

TEST_CASE("the passes of every rank are told the same of how far the run is") {
  CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
          const auto point = std::make_shared<Point>(0.5);
          DISTILL_ASSIGN_OR_RETURN(const auto trainer,
                                   Trainer::Create(*run, point, {.max_steps = 5, .logging_steps = 0, .save_steps = 0}));
          Told steps(*point);
          DISTILL_RETURN_IF_ERROR(trainer->Fit(steps).status());
          return Expect(steps.progress == std::vector<double>{0, 0.25, 0.5, 0.75, 1}, "other shares of the run");
        })) == "");
}

TEST_CASE("terms that one rank alone reports are logged, each divided by its own count") {
  const testing::TempFolder output;
  CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
          const auto point = std::make_shared<Point>(0.5);
          DISTILL_ASSIGN_OR_RETURN(
              const auto trainer,
              Trainer::Create(*run, point,
                              {.output_dir = output.path(), .max_steps = 5, .logging_steps = 1, .save_steps = 0}));
          const std::string name = world.rank == 0 ? "a" : "b";
          OwnTerms steps(*point, name, name);
          return trainer->Fit(steps).status();
        })) == "");
  const std::vector<std::string> lines =
      absl::StrSplit(ReadFile(output.path() + "/metrics.jsonl").value(), '\n', absl::SkipEmpty());
  REQUIRE(lines.size() == 5);
  for (const std::string& line : lines) {
    INFO(line);
    CHECK(absl::StrContains(line, "\"a\":3.5"));
    CHECK(absl::StrContains(line, "\"b\":3.5"));
  }
}

// What a program's own code may do.
class Throws : public Observer {
 public:
  explicit Throws(std::string where) : where_(std::move(where)) {}
  absl::Status OnStep(const StepRecord& record, TrainingControl&) override {
    if (where_ == "OnStep" && record.step == 2) throw std::out_of_range("no such metric");
    return absl::OkStatus();
  }
  absl::Status OnEnd(const NamedValues&) override {
    if (where_ == "OnEnd") throw std::out_of_range("no such metric");
    return absl::OkStatus();
  }

 private:
  const std::string where_;
};

TEST_CASE("an observer that throws on one rank ends all ranks with its error") {
  for (const char* where : {"OnStep", "OnEnd"}) {
    INFO(where);
    CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) -> absl::Status {
            DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
            const auto point = std::make_shared<Point>(0.5);
            DISTILL_ASSIGN_OR_RETURN(
                const auto trainer,
                Trainer::Create(*run, point, {.max_steps = 6, .logging_steps = 0, .save_steps = 0}));
            if (world.rank == 1) trainer->AddObserver(std::make_shared<Throws>(where));
            Steps steps(*point, -1);
            const absl::Status status = trainer->Fit(steps).status();
            return Expect(absl::StrContains(status.message(), "no such metric"), status.ToString());
          })) == "");
  }
}

TEST_CASE("a term that no rank had named before the first step is an error on all") {
  CHECK(Failures(RunRanks(2, kLimit, [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(const auto run, Meet(world));
          const auto point = std::make_shared<Point>(0.5);
          DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(*run, point, Options()));
          OwnTerms steps(*point, "a", world.rank == 0 ? "a" : "late");
          return ExpectError(trainer->Fit(steps).status(), absl::StatusCode::kInvalidArgument,
                             {"'late'", "which no rank had named", "a, loss"});
        })) == "");
}

// A model of four words.
struct Words : LanguageModel {
  Words() { weight = register_parameter("weight", torch::eye(4)); }
  torch::Tensor Hidden(const TokenInput& input) override { return torch::embedding(weight, input.input_ids); }
  torch::Tensor head_weight() const override { return weight; }
  torch::Tensor weight;
};

// What a rank may have other than the rest.
struct Differing {
  int32_t word = 2, held_out_word = 2;
  uint8_t target = 1;
  bool evaluates = true;
  DistillationOptions loss = {.alpha = 0};
  ShardOptions shard = {};
};

// Two ranks, of which rank 1 has `other`: both must end before the first step with `parts`.
std::string FitApart(const Differing& other, std::vector<std::string> parts) {
  parts.insert(parts.end(), {"rank 0", "rank 1"});
  return Failures(RunRanks(2, kLimit, [&](const World& world) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(auto run, Meet(world));
    const Differing mine = world.rank == 1 ? other : Differing();
    auto words = std::make_shared<Words>();
    DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(*run, words, Options()));
    const auto shard = [&](int32_t word, const ShardOptions& options) {
      return TokenBatches::Create(MakeTokenDataset({{{1, word, 3}, {0, 1, mine.target}}, {{1, 3, 2}, {0, 1, 1}}}),
                                  world.rank, 2, options);
    };
    DISTILL_ASSIGN_OR_RETURN(auto training, shard(mine.word, mine.shard));
    DISTILL_ASSIGN_OR_RETURN(auto held_out, shard(mine.held_out_word, {}));
    DISTILL_ASSIGN_OR_RETURN(auto task, Distiller::Create(nullptr, words, std::move(training), mine.loss));
    if (mine.evaluates) task->SetHeldOut(std::move(held_out));
    return ExpectError(trainer->Fit(*task).status(), absl::StatusCode::kFailedPrecondition, parts);
  }));
}

// Noise that each rank draws for itself.
class NoisySteps : public testing::CountedTask {
 public:
  explicit NoisySteps(Point& point) : point_(point) {}
  int64_t steps_per_epoch() const override { return 10; }
  absl::StatusOr<std::vector<MicroStep>> NextStep() override {
    return std::vector<MicroStep>{
        {.counts = {1}, .num_tokens = 1, .num_samples = 1, .forward = [this](const PassScale&) {
           return Losses{{"loss", (point_.weight - torch::rand({3})).square().sum(), 1}};
         }}};
  }

 private:
  Point& point_;
};

// The weights after so many steps, with a checkpoint at the third.
absl::StatusOr<torch::Tensor> TrainNoisily(RunContext& run, const std::string& folder, int64_t steps,
                                           const std::string& resume) {
  auto point = std::make_shared<Point>(0.5);
  TrainerOptions options{.output_dir = folder, .max_steps = steps, .learning_rate = 0.1, .save_steps = 3};
  options.lr_scheduler_type = SchedulerType::kConstant;
  options.resume_from_checkpoint = resume;
  DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(run, point, options));
  NoisySteps source(*point);
  DISTILL_RETURN_IF_ERROR(trainer->Fit(source).status());
  return point->weight.detach().clone();
}

// The same error on every rank, with the failing rank's name on the others.
absl::Status ExpectEverywhere(const absl::Status& status, const World& world, int failing, absl::StatusCode code,
                              const std::string& part) {
  const std::string name = absl::StrCat("rank ", failing, " on ", world.host);
  if (world.rank == failing) return ExpectError(status, code, {part});
  return ExpectError(status, code, {name, part});
}

}  // namespace

TEST_CASE("a source that throws on one rank ends all ranks with its error") {
  CHECK(Failures(RunRanks(3, kLimit, [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(auto run, Meet(world));
          auto point = std::make_shared<Point>(0.5);
          DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(*run, point, Options()));
          Steps steps(*point, world.rank == 1 ? 4 : -1);
          return ExpectEverywhere(trainer->Fit(steps).status(), world, 1, absl::StatusCode::kInternal,
                                  "the disk of the data is gone");
        })) == "");
}

TEST_CASE("a log that cannot be written ends no rank") {
  const testing::TempFolder folder;
  CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(auto run, Meet(world));
          auto point = std::make_shared<Point>(0.5);
          TrainerOptions options = Options();
          options.output_dir = folder.path();
          DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(*run, point, options));
          Steps steps(*point, -1);
          if (world.rank == 0) {  // as a full disk: writes beyond so many bytes fail
            signal(SIGXFSZ, SIG_IGN);
            const rlimit limit{.rlim_cur = 3000, .rlim_max = 3000};
            DISTILL_RETURN_IF_ERROR(Expect(setrlimit(RLIMIT_FSIZE, &limit) == 0, "no limit"));
          }
          return trainer->Fit(steps).status();
        })) == "");
}

TEST_CASE("ranks start from rank 0's parameters and buffers, of any type and layout") {
  CHECK(Failures(RunRanks(2, kLimit, [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(auto run, Meet(world));
          auto point = std::make_shared<Point>(world.rank == 0 ? 0.5 : -2.0);
          point->mean[0][1] = 7.0 + world.rank;
          DISTILL_RETURN_IF_ERROR(Trainer::Create(*run, point, Options()).status());
          DISTILL_RETURN_IF_ERROR(Expect(point->weight.eq(0.5).all().item<bool>(), "weight"));
          DISTILL_RETURN_IF_ERROR(Expect(point->mean[0][1].item<float>() == 7.0f, "mean"));
          return Expect(point->flag.all().item<bool>(), "flag");
        })) == "");
}

TEST_CASE("ranks with other numbers of steps are told apart before the first step") {
  CHECK(Failures(RunRanks(2, kLimit, [](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(auto run, Meet(world));
          auto point = std::make_shared<Point>(0.5);
          DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(*run, point, {.num_train_epochs = 1}));
          Steps steps(*point, -1, /*per_epoch=*/10 + world.rank);
          return ExpectError(trainer->Fit(steps).status(), absl::StatusCode::kFailedPrecondition,
                             {"the number of steps", "10", "rank 1", "11"});
        })) == "");
}

TEST_CASE("ranks with other tokens, targets or settings are told apart before the first step, by what differs") {
  CHECK(FitApart({.word = 3}, {"samples of the training data", "2 samples"}) == "");
  CHECK(FitApart({.target = 0}, {"samples of the training data"}) == "");
  CHECK(FitApart({.held_out_word = 3}, {"samples of the held-out data"}) == "");
  CHECK(FitApart({.evaluates = false}, {"held-out data"}) == "");
  CHECK(FitApart({.loss = {.temperature = 3, .alpha = 0}}, {"temperature", "2", "3"}) == "");
  CHECK(FitApart({.shard = {.seed = 7}}, {"seed of the training data", "42", "7"}) == "");
}

TEST_CASE("a resumed run draws on each rank the noise that the undisturbed one would have drawn") {
  const testing::TempFolder whole, parts;
  CHECK(Failures(RunRanks(2, kLimit, [&](const World& world) -> absl::Status {
          DISTILL_ASSIGN_OR_RETURN(auto run, Meet(world));
          DISTILL_ASSIGN_OR_RETURN(const auto expected, TrainNoisily(*run, whole.path(), 8, ""));
          DISTILL_ASSIGN_OR_RETURN(const auto early, TrainNoisily(*run, parts.path(), 4, ""));
          DISTILL_ASSIGN_OR_RETURN(const auto found, TrainNoisily(*run, parts.path(), 8, "latest"));
          DISTILL_RETURN_IF_ERROR(Expect(!torch::equal(early, expected), "nothing was trained"));
          return Expect(torch::equal(found, expected), "other weights");
        })) == "");
}

TEST_CASE("what a rank failed at before it met the others ends them with its error") {
  CHECK(Failures(RunRanks(3, kLimit, [](const World& world) -> absl::Status {
          CommunicatorOptions options{.backend = world.rank == 1 ? BackendPreference::kAuto : BackendPreference::kShm};
          if (world.rank == 1) options.own_error = absl::InvalidArgumentError("--alpha: expected a number");
          const absl::Status status = CreateCommunicator(world, options).status();
          DISTILL_RETURN_IF_ERROR(Expect(IsSharedError(status), "not known to be everybody's"));
          return ExpectError(status, absl::StatusCode::kInvalidArgument,
                             {absl::StrCat("rank 1 on ", world.host, ": --alpha")});
        })) == "");
}

}  // namespace distill
