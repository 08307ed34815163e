// What a record says of the steps since the last one.
#include "libdistill/metrics/record_sums.h"

#include <fstream>
#include <thread>

#include "absl/strings/str_split.h"
#include "libdistill/store/files.h"
#include "libdistill/train/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/counted_task.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

TEST_CASE("a record has the means of the steps since the last one, also of a run that was resumed between them") {
  RecordSums whole;
  whole.Add({{"loss", 1.0}, {"ce", 2.0}});
  whole.Add({{"loss", 2.0}});
  TrainerState saved;
  whole.SaveTo(saved);
  RecordSums resumed;
  resumed.Restore(ParseTrainerState(Serialize(saved), "saved").value());
  for (RecordSums* sums : {&whole, &resumed}) {
    sums->Add({{"loss", 6.0}, {"ce", 4.0}});
    CHECK(sums->Take() == NamedValues{{"loss", 3.0}, {"ce", 3.0}});
    sums->Add({{"loss", 7.0}});
    CHECK(sums->Take() == NamedValues{{"loss", 7.0}});
  }
}

TEST_CASE("a clock of training stands still while it is paused") {
  TrainingClock clock;
  CHECK(clock.Seconds() == 0);
  clock.Resume();
  clock.Pause();
  const double seconds = clock.Seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(clock.Seconds() == seconds);
  clock.Resume();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(clock.Seconds() >= seconds + 0.02);
}

// Whose loss is the number of its step, and which has the batches of some steps late.
class Counts : public testing::CountedTask {
 public:
  explicit Counts(torch::Tensor weight) : weight_(std::move(weight)) {}
  absl::StatusOr<std::vector<MicroStep>> NextStep() override {
    const double step = static_cast<double>(++made_);
    if (late.contains(made_)) std::this_thread::sleep_for(std::chrono::milliseconds(late.at(made_)));
    MicroStep micro_step{.counts = {1}, .num_tokens = 1, .num_samples = 1};
    micro_step.forward = [this, step](const PassScale&) { return Losses{{"loss", weight_.sum() * 0 + step, 1}}; };
    return std::vector<MicroStep>{std::move(micro_step)};
  }
  std::map<int64_t, int> late;  // milliseconds by step

 private:
  torch::Tensor weight_;
};

struct One : torch::nn::Module {
  One() { weight = register_parameter("weight", torch::ones({1})); }
  torch::Tensor weight;
};

// Asks to stop after a step, and notes what it sees.
class StopsAfter : public Observer {
 public:
  explicit StopsAfter(int64_t step) : step_(step) {}
  absl::Status OnStep(const StepRecord& record, TrainingControl& control) override {
    if (record.step == step_) control.Stop();
    steps = record.step;
    return absl::OkStatus();
  }
  absl::Status OnLog(const StepRecord& record, TrainingControl&) override {
    logged.push_back(record.values[0].second);
    for (const auto& [name, value] : record.values) {
      if (name == "data_wait_seconds") waits.push_back(value);
    }
    return absl::OkStatus();
  }
  absl::Status OnSave(const SaveRecord& record, TrainingControl&) override {
    saved.push_back(record.step);
    return absl::OkStatus();
  }
  absl::Status OnEnd(const NamedValues&) override {
    ended = true;
    return absl::OkStatus();
  }
  int64_t steps = 0;
  std::vector<double> logged, waits;
  std::vector<int64_t> saved;
  bool ended = false;

 private:
  const int64_t step_;
};

TEST_CASE("an observer sees steps, records of means and saves, and ends training when it asks to") {
  const testing::TempFolder folder;
  RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
  const auto one = std::make_shared<One>();
  TrainerOptions options{.output_dir = folder.path(), .max_steps = 100, .logging_steps = 2, .save_steps = 4};
  auto trainer = Trainer::Create(run, one, options);
  REQUIRE(trainer.ok());
  const auto observer = std::make_shared<StopsAfter>(6);
  (*trainer)->AddObserver(observer);
  Counts task(one->weight);
  const auto result = (*trainer)->Fit(task);
  REQUIRE(result.ok());
  CHECK(result->steps == 7);  // ranks hear of it with the next step's losses
  CHECK(observer->steps == 7);
  CHECK(observer->logged == std::vector<double>{1.5, 3.5, 5.5, 7});
  CHECK(observer->saved == std::vector<int64_t>{4, 7});
  CHECK(observer->ended);
}

TEST_CASE("records say how long their steps waited for data") {
  const testing::TempFolder folder;
  RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
  const auto one = std::make_shared<One>();
  TrainerOptions options{.output_dir = folder.path(), .max_steps = 6, .logging_steps = 2};
  auto trainer = Trainer::Create(run, one, options);
  REQUIRE(trainer.ok());
  const auto observer = std::make_shared<StopsAfter>(100);
  (*trainer)->AddObserver(observer);
  Counts task(one->weight);
  task.late = {{3, 150}, {4, 50}};
  REQUIRE((*trainer)->Fit(task).ok());
  REQUIRE(observer->waits.size() == 3);
  CHECK(observer->waits[0] < 0.2);  // on a machine that does other things
  CHECK(observer->waits[1] >= 0.2);
  CHECK(observer->waits[1] < 1);
  CHECK(observer->waits[2] < 0.2);
}

}  // namespace
}  // namespace distill
