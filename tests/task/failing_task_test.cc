// A source that fails while others are well: every rank ends with its message.
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/train/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/counted_task.h"
#include "tests/support/ranks.h"

namespace distill::failing_task {
namespace {

using testing::ExpectError;
using testing::Failures;
using testing::RunRanks;

struct Point : torch::nn::Module {
  Point() { weight = register_parameter("weight", torch::zeros({3})); }
  torch::Tensor weight;
};

// On rank 1 the store is away from the third step on.
class FailsInStep3 : public testing::CountedTask {
 public:
  FailsInStep3(Point& point, int rank) : point_(point), rank_(rank) {}
  absl::StatusOr<std::vector<MicroStep>> NextStep() override {
    if (++made_ == 3 && rank_ == 1) return absl::UnavailableError("s3://bucket/rows.jsonl: the store is away");
    return std::vector<MicroStep>{{.counts = {1}, .num_samples = 1, .forward = [this](const PassScale&) {
                                     return Losses{{"loss", (point_.weight - 1).square().sum(), 1}};
                                   }}};
  }

 private:
  Point& point_;
  const int rank_;
};

TEST_CASE("a task whose source fails in step 3 on one rank ends all ranks with that message") {
  CHECK(Failures(RunRanks(3, absl::Seconds(60), [](const World& world) -> absl::Status {
          torch::set_num_threads(1);
          DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.timeout = absl::Seconds(30)}));
          RunContext run(world, std::move(comm), torch::kCPU);
          const auto point = std::make_shared<Point>();
          DISTILL_ASSIGN_OR_RETURN(auto trainer,
                                   Trainer::Create(run, point, {.max_steps = 9, .logging_steps = 0, .save_steps = 0}));
          FailsInStep3 task(*point, world.rank);
          const absl::Status status = trainer->Fit(task).status();
          DISTILL_RETURN_IF_ERROR(ExpectError(status, absl::StatusCode::kUnavailable, {"the store is away"}));
          if (world.rank == 1) return absl::OkStatus();
          return ExpectError(status, absl::StatusCode::kUnavailable, {"rank 1 on"});
        })) == "");
}

// Held-out data of which each rank believes another number of steps.
class Unequal : public Evaluator {
 public:
  explicit Unequal(int64_t steps) : steps_(steps) {}
  absl::Status Start(c10::Device) override { return absl::OkStatus(); }
  absl::StatusOr<int64_t> Steps() override { return steps_; }
  absl::StatusOr<std::vector<Pass>> NextStep() override {
    return std::vector<Pass>{[](Metrics&) { return absl::InternalError("a pass was made"); }};
  }

 private:
  const int64_t steps_;
};

TEST_CASE("ranks that would evaluate unequal numbers of steps end before the first of them, and may evaluate again") {
  CHECK(Failures(RunRanks(3, absl::Seconds(60), [](const World& world) -> absl::Status {
          torch::set_num_threads(1);
          DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.timeout = absl::Seconds(30)}));
          RunContext run(world, std::move(comm), torch::kCPU);
          DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(run, std::make_shared<Point>(), {.save_steps = 0}));
          Unequal evaluator(world.rank == 2 ? 5 : 4);
          DISTILL_RETURN_IF_ERROR(ExpectError(trainer->Evaluate(evaluator).status(),
                                              absl::StatusCode::kFailedPrecondition,
                                              {"the steps of an evaluation", "4", "5"}));
          Unequal none(0);
          return trainer->Evaluate(none).status();
        })) == "");
}

}  // namespace
}  // namespace distill::failing_task
