// Observer::OnBegin: what a program looks at before the first step, by a module that is whole or sharded.
#include <cmath>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/train/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"
#include "tests/train/sentences.h"

namespace distill {
namespace {

using testing::BatchOf;
using testing::Expect;
using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;
using testing::Sentences;
using testing::TempFolder;

constexpr auto kLookLimit = absl::Seconds(120);

// Takes the loss of a batch that rank 0 alone has.
class Look : public Observer, public Evaluator {
 public:
  Look(Trainer& trainer, const LogitDistillation& objective, const World& world, const std::string& records)
      : trainer_(trainer), objective_(objective), world_(world), records_(records) {}
  absl::Status OnBegin(int64_t step) override {
    begun_at = step;
    had_records = FileExists(records_);
    DISTILL_ASSIGN_OR_RETURN(const MetricValues metrics, trainer_.Evaluate(*this));
    loss = metrics.at("ce");
    return error;
  }
  absl::Status Start(c10::Device) override { return absl::OkStatus(); }
  absl::StatusOr<int64_t> Steps() override { return 1; }
  absl::StatusOr<std::vector<Pass>> NextStep() override {
    if (world_.rank != 0) return std::vector<Pass>{nullptr};
    return std::vector<Pass>{[this](Metrics& metrics) {
      const Losses losses = objective_.Forward(BatchOf(0, 0), {});
      metrics.Mean("ce", losses.Find("ce")->sum, losses.Find("ce")->count);
      return absl::OkStatus();
    }};
  }

  absl::Status error;
  int64_t begun_at = -1;
  bool had_records = false;
  double loss = 0;

 private:
  Trainer& trainer_;
  const LogitDistillation& objective_;
  const World& world_;
  const std::string records_;
};

// Is told first, and throws on rank 1.
class Throw : public Observer {
 public:
  explicit Throw(const World& world) : world_(world) {}
  absl::Status OnBegin(int64_t) override {
    if (world_.rank == 1) throw std::runtime_error("no such place");
    return absl::OkStatus();
  }

 private:
  const World& world_;
};

struct Looked {
  int64_t stage = 0, steps = 2;
  bool throws = false;
  std::string folder, resume = {};
  absl::Status error = {};
};

absl::StatusOr<std::shared_ptr<Look>> TrainLooked(const World& world, const Looked& c) {
  torch::set_num_threads(1);
  DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.timeout = absl::Seconds(60)}));
  RunContext run(world, std::move(comm), torch::kCPU);
  const auto model = std::make_shared<Decoder>(testing::Shape(/*is_tied=*/false), /*seed=*/42);
  DISTILL_ASSIGN_OR_RETURN(auto objective, LogitDistillation::CreateLive(nullptr, model, {.alpha = 0}));
  Sentences sentences(objective, world);
  sentences.save = [](const std::string&) { return absl::OkStatus(); };
  TrainerOptions options = {.output_dir = c.folder,
                            .max_steps = c.steps,
                            .logging_steps = 1,
                            .save_steps = 2,
                            .resume_from_checkpoint = c.resume,
                            .zero_stage = c.stage};
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, model, options));
  const auto look = std::make_shared<Look>(*trainer, *objective, world, absl::StrCat(c.folder, "/metrics.jsonl"));
  look->error = c.error;
  if (c.throws) trainer->AddObserver(std::make_shared<Throw>(world));
  trainer->AddObserver(look);
  DISTILL_RETURN_IF_ERROR(trainer->Fit(sentences).status());
  return look;
}

absl::StatusOr<double> LossAlone() {
  const auto model = std::make_shared<Decoder>(testing::Shape(/*is_tied=*/false), /*seed=*/42);
  DISTILL_ASSIGN_OR_RETURN(auto objective, LogitDistillation::CreateLive(nullptr, model, {.alpha = 0}));
  const torch::NoGradGuard no_grad;
  const Losses losses = objective->Forward(BatchOf(0, 0), {});
  return losses.Find("ce")->sum.item<double>() / static_cast<double>(losses.Find("ce")->count);
}

absl::Status LooksFirst(const World& world, const Looked& c) {
  DISTILL_ASSIGN_OR_RETURN(const double expected, LossAlone());
  DISTILL_ASSIGN_OR_RETURN(const auto look, TrainLooked(world, c));
  DISTILL_RETURN_IF_ERROR(Expect(look->begun_at == 0 && !look->had_records, "it was not told before the first step"));
  return Expect(std::abs(look->loss - expected) < 1e-5 * expected,
                absl::StrCat("the loss is ", look->loss, ", not ", expected));
}

TEST_CASE("an observer evaluates the module before the first step, on every rank and in every stage") {
  for (const int ranks : {1, 2}) {
    for (const int64_t stage : {0, 1, 2, 3}) {
      INFO(ranks << " ranks, stage " << stage);
      const TempFolder folder;
      const Looked c = {.stage = stage, .folder = folder.path()};
      CHECK(Failures(RunRanks(ranks, kLookLimit, [&](const World& world) { return LooksFirst(world, c); })) == "");
      Looked resumed = c;
      resumed.steps = 3;
      resumed.resume = "latest";
      CHECK(Failures(RunRanks(ranks, kLookLimit, [&](const World& world) -> absl::Status {
              DISTILL_ASSIGN_OR_RETURN(const auto look, TrainLooked(world, resumed));
              return Expect(look->begun_at == 2, absl::StrCat("told of step ", look->begun_at));
            })) == "");
    }
  }
}

TEST_CASE("an observer's error at the beginning ends every rank, and leaves no records") {
  const TempFolder folder;
  CHECK(Failures(RunRanks(2, kLookLimit, [&](const World& world) {
          Looked c = {.stage = 3, .folder = folder.path()};
          if (world.rank == 1) c.error = absl::InvalidArgumentError("a loss as of chance");
          return ExpectError(TrainLooked(world, c).status(), absl::StatusCode::kInvalidArgument,
                             {"a loss as of chance"});
        })) == "");
  CHECK_FALSE(FileExists(absl::StrCat(folder.path(), "/metrics.jsonl")));
}

TEST_CASE("an observer that throws on one rank does not keep those behind it from evaluating on all") {
  const TempFolder folder;
  const Looked c = {.stage = 3, .throws = true, .folder = folder.path()};
  CHECK(Failures(RunRanks(2, kLookLimit, [&](const World& world) {
          return ExpectError(TrainLooked(world, c).status(), absl::StatusCode::kInternal, {"no such place"});
        })) == "");
}

}  // namespace
}  // namespace distill
