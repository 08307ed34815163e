// When a run evaluates and saves, which evaluation is the best, and what becomes of its model.
#include <cmath>
#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/store/safetensors.h"
#include "libdistill/train/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/counted_task.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace best_model {

using testing::TempFolder;
using Steps = std::set<int64_t>;

struct Line : torch::nn::Module {
  Line() { weight = register_parameter("weight", torch::ones({2})); }
  torch::Tensor weight;
};

// Evaluations that give what a test wants, in order, and then the last one again.
class Scripted : public Evaluator {
 public:
  explicit Scripted(std::vector<double> values) : values_(std::move(values)) {}
  absl::Status Start(c10::Device) override {
    return fails ? absl::InternalError("no held-out data") : absl::OkStatus();
  }
  absl::StatusOr<int64_t> Steps() override { return 0; }
  absl::StatusOr<std::vector<Pass>> NextStep() override { return std::vector<Pass>(); }
  absl::StatusOr<MetricValues> Summarize(const MetricValues&, const Predictions&) override {
    const double value = values_[std::min(next++, values_.size() - 1)];
    return MetricValues{{"loss", value}, {"term", value}, {"accuracy", -value}, {"order", static_cast<double>(next)}};
  }
  size_t next = 0;
  bool fails = false;

 private:
  const std::vector<double> values_;
};

class Fitted : public testing::CountedTask {
 public:
  Fitted(Line& module, std::vector<double> values) : scripted(std::move(values)), module_(module) {}
  int64_t steps_per_epoch() const override { return 4; }
  absl::StatusOr<std::vector<MicroStep>> NextStep() override {
    const double target = ++made_ == bad_step ? std::nan("") : static_cast<double>(made_);
    return std::vector<MicroStep>{
        {.counts = {2}, .num_tokens = 2, .num_samples = 2, .forward = [=, this](const PassScale&) {
           return Losses{{"term", (module_.weight - target).square().sum(), 2}};
         }}};
  }
  std::vector<TermWeight> LossTerms() const override { return {{"term"}}; }
  Evaluator* evaluator() override { return &scripted; }
  Scripted scripted;
  int64_t bad_step = 0;  // whose loss is no number

 private:
  Line& module_;
};

struct Seen : Observer {
  absl::Status OnEvaluate(const EvaluationRecord& record, TrainingControl&) override {
    evaluations.insert(record.step);
    return absl::OkStatus();
  }
  absl::Status OnSave(const SaveRecord& record, TrainingControl&) override {
    saves.insert(record.step);
    return absl::OkStatus();
  }
  absl::Status OnLog(const StepRecord& record, TrainingControl&) override {
    logs.insert(record.step);
    return absl::OkStatus();
  }
  Steps evaluations, saves, logs;
};

struct Trained {
  absl::StatusOr<TrainResult> result = absl::UnknownError("not trained");
  Seen seen;
  std::vector<float> weights;
};

Trained Train(TrainerOptions options, std::vector<double> values, size_t first_value = 0, bool fails = false,
              int64_t bad_step = 0) {
  options.learning_rate = 0.1;
  options.lr_scheduler_type = SchedulerType::kConstant;  // so that max_steps says when to end, and nothing else
  options.warmup_ratio = 0;
  options.disable_tqdm = true;
  RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
  auto module = std::make_shared<Line>();
  Trained trained;
  const auto trainer = Trainer::Create(run, module, options);
  if (!trainer.ok()) {
    trained.result = trainer.status();
    return trained;
  }
  auto seen = std::make_shared<Seen>();
  (*trainer)->AddObserver(seen);
  Fitted task(*module, std::move(values));
  task.scripted.next = first_value;
  task.scripted.fails = fails;
  task.bad_step = bad_step;
  trained.result = (*trainer)->Fit(task);
  trained.seen = *seen;
  trained.weights.assign(module->weight.data_ptr<float>(), module->weight.data_ptr<float>() + 2);
  return trained;
}

std::vector<float> WeightsIn(const std::string& folder) {
  const auto file = SafetensorsFile::Open(folder + "/model.safetensors");
  REQUIRE(file.ok());
  const auto view = file->Load("weight");
  REQUIRE(view.ok());
  const auto* values = static_cast<const float*>(view->data);
  return {values, values + 2};
}

Steps CheckpointsIn(const std::string& folder) {
  Steps steps;
  for (int64_t step = 1; step < 100; ++step) {
    if (std::filesystem::exists(CheckpointFolder(folder, step))) steps.insert(step);
  }
  return steps;
}

TEST_CASE("evaluations and checkpoints come every so many steps, after each epoch, or not at all") {
  const TempFolder by_steps, by_epoch, never;
  const Trained steps = Train({.output_dir = by_steps.path(), .max_steps = 11, .save_steps = 3, .eval_steps = 5}, {1});
  CHECK(steps.seen.evaluations == Steps{5, 10, 11});
  CHECK(steps.seen.saves == Steps{3, 6, 9, 11});
  const Trained epochs = Train({.output_dir = by_epoch.path(),
                                .max_steps = 11,
                                .save_strategy = SaveStrategy::kEpoch,
                                .eval_strategy = EvalStrategy::kEpoch},
                               {1});
  CHECK(epochs.seen.evaluations == Steps{4, 8, 11});
  CHECK(epochs.seen.saves == Steps{4, 8, 11});
  const Trained none = Train({.output_dir = never.path(),
                              .max_steps = 11,
                              .save_strategy = SaveStrategy::kNo,
                              .save_steps = 3,
                              .eval_strategy = EvalStrategy::kNo},
                             {1});
  CHECK(none.seen.evaluations.empty());
  CHECK(none.seen.saves.empty());
  CHECK(none.result->metrics.count("eval_loss") == 0);
  CHECK(Train({.max_steps = 6}, {1}).seen.evaluations == Steps{6});  // auto, without eval_steps
  CHECK(steps.weights == none.weights);                              // and none of it changes the training
}

TEST_CASE("the model of the best evaluation is what a run leaves, and its checkpoint is never pruned") {
  const TempFolder folder;
  const Trained trained = Train({.output_dir = folder.path(),
                                 .max_steps = 10,
                                 .save_steps = 5,
                                 .save_total_limit = 1,
                                 .eval_steps = 2,
                                 .best_model = {.load_best_model_at_end = true}},
                                {5, 3, 4, std::nan(""), 6});
  REQUIRE(trained.result.status() == absl::OkStatus());
  // Step 2 was the best when it came, step 4 is; step 4 is no multiple of save_steps.
  CHECK(trained.seen.saves == Steps{2, 4, 5, 10});
  CHECK(CheckpointsIn(folder.path()) == Steps{4, 10});
  CHECK(trained.weights == WeightsIn(CheckpointFolder(folder.path(), 4)));
  CHECK(trained.weights == WeightsIn(folder.path()));
  CHECK(trained.weights != WeightsIn(CheckpointFolder(folder.path(), 10)));
  CHECK(trained.result->metrics.at("eval_loss") == 3);
  CHECK(trained.result->metrics.at("eval_order") == 2);
  CHECK(trained.result->steps == 10);
}

TEST_CASE("an evaluation after an update that was left out is not the best one, whatever its number") {
  const TempFolder folder;
  const Trained trained = Train({.output_dir = folder.path(),
                                 .max_steps = 8,
                                 .save_steps = 2,
                                 .eval_steps = 2,
                                 .best_model = {.load_best_model_at_end = true}},
                                {5, 1, 3, 4}, /*first_value=*/0, /*fails=*/false, /*bad_step=*/4);
  REQUIRE(trained.result.status() == absl::OkStatus());
  CHECK(trained.seen.evaluations == Steps{2, 4, 6, 8});
  CHECK(trained.seen.saves == Steps{2, 5, 6, 8});  // what was due at 4 comes after the next update
  CHECK(trained.result->metrics.at("eval_loss") == 3);
  CHECK(trained.weights == WeightsIn(CheckpointFolder(folder.path(), 6)));
}

TEST_CASE("a run that is resumed knows which evaluation was the best, and how many came since") {
  const TempFolder whole, broken;
  const std::vector<double> values = {5, 3, 4, 6, 7, 1};
  TrainerOptions options{.output_dir = whole.path(),
                         .max_steps = 20,
                         .save_steps = 6,
                         .eval_steps = 2,
                         .best_model = {.load_best_model_at_end = true, .early_stopping_patience = 3}};
  const Trained undisturbed = Train(options, values);
  REQUIRE(undisturbed.result.status() == absl::OkStatus());
  CHECK(undisturbed.result->steps == 10);  // 4 is the best, 6, 8 and 10 are not
  CHECK(undisturbed.seen.saves == Steps{2, 4, 6, 10});
  CHECK(undisturbed.weights == WeightsIn(CheckpointFolder(whole.path(), 4)));

  options.output_dir = broken.path();
  options.max_steps = 6;
  REQUIRE(Train(options, values).result.ok());
  options.max_steps = 20;
  options.resume_from_checkpoint = "latest";
  const Trained resumed = Train(options, values, /*first_value=*/3);
  REQUIRE(resumed.result.status() == absl::OkStatus());
  CHECK(resumed.seen.evaluations == Steps{8, 10});
  CHECK(resumed.result->steps == 10);
  CHECK(resumed.weights == undisturbed.weights);
  CHECK(resumed.result->metrics.at("eval_loss") == 3);

  const Trained ended = Train(options, {0});  // resumed where it had ended early: nothing is trained
  REQUIRE(ended.result.status() == absl::OkStatus());
  CHECK(ended.result->steps == 10);
  CHECK(ended.seen.logs.empty());

  const TempFolder elsewhere;  // the best checkpoint stays where it is
  TrainerOptions moved = options;
  moved.output_dir = elsewhere.path();
  moved.resume_from_checkpoint = CheckpointFolder(broken.path(), 6);
  const Trained there = Train(moved, values, /*first_value=*/3);
  REQUIRE(there.result.status() == absl::OkStatus());
  CHECK(there.weights == undisturbed.weights);

  std::filesystem::remove_all(CheckpointFolder(broken.path(), 4));  // of the best: another one is looked for
  std::filesystem::remove_all(CheckpointFolder(broken.path(), 10));
  const Trained anew = Train(options, values, /*first_value=*/3);
  REQUIRE(anew.result.status() == absl::OkStatus());
  CHECK(anew.result->metrics.at("eval_loss") == 1);
}

TEST_CASE("where no evaluation is saved for itself, the best one that was saved is never pruned") {
  const TempFolder folder;
  const Trained trained = Train({.output_dir = folder.path(),
                                 .max_steps = 9,
                                 .save_steps = 3,
                                 .save_total_limit = 1,
                                 .eval_steps = 1,
                                 .best_model = {.metric_for_best_model = "loss"}},
                                {5, 4, 1, 0.5, 6, 7, 8, 9, 9});
  REQUIRE(trained.result.status() == absl::OkStatus());
  CHECK(CheckpointsIn(folder.path()) == Steps{3, 9});  // step 4 is the best, and was not saved
}

TEST_CASE("an evaluation before the first step is recorded, and does not count as the best") {
  const TempFolder folder;
  TrainerOptions options{.output_dir = folder.path(),
                         .max_steps = 4,
                         .eval_steps = 2,
                         .eval_on_start = true,
                         .best_model = {.load_best_model_at_end = true}};
  const Trained trained = Train(options, {1, 3, 4});
  REQUIRE(trained.result.status() == absl::OkStatus());
  CHECK(trained.seen.evaluations == Steps{0, 2, 4});
  CHECK(trained.result->metrics.at("eval_loss") == 3);
  options.max_steps = 6;
  options.resume_from_checkpoint = "latest";
  CHECK(Train(options, {5}).seen.evaluations == Steps{6});
  const Trained fails = Train({.max_steps = 4, .eval_on_start = true}, {1}, 0, /*fails=*/true);
  CHECK_FALSE(fails.result.ok());
  CHECK(fails.seen.logs.empty());
  const Trained misspelt = Train(
      {.max_steps = 4, .eval_steps = 2, .eval_on_start = true, .best_model = {.metric_for_best_model = "f1"}}, {1});
  CHECK(absl::StrContains(misspelt.result.status().message(), "gives no 'f1'"));
  CHECK(misspelt.seen.logs.empty());
}

TEST_CASE("patience ends a run whose last step is logged, saved and evaluated once") {
  const TempFolder folder;
  const TrainerOptions options{.output_dir = folder.path(),
                               .max_steps = 40,
                               .logging_steps = 5,
                               .save_steps = 100,
                               .eval_strategy = EvalStrategy::kEpoch,
                               .best_model = {.early_stopping_patience = 2, .early_stopping_threshold = 0.5}};
  const Trained trained = Train(options, {5, 4.8, 4.7, 1});  // better, but not by the threshold
  REQUIRE(trained.result.status() == absl::OkStatus());
  CHECK(trained.seen.evaluations == Steps{4, 8, 12});
  CHECK(trained.seen.logs == Steps{5, 10, 12});
  CHECK(trained.seen.saves == Steps{12});
}

TEST_CASE("greater is better where the metric says so, or its name does") {
  const auto best_of = [](const BestModelOptions& best) {
    const TempFolder folder;
    TrainerOptions options{.output_dir = folder.path(), .max_steps = 6, .eval_steps = 2, .best_model = best};
    options.best_model.load_best_model_at_end = true;
    const Trained trained = Train(options, {5, 3, 4});
    REQUIRE(trained.result.status() == absl::OkStatus());
    return trained.result->metrics.at("eval_loss");
  };
  CHECK(best_of({}) == 3);
  CHECK(best_of({.metric_for_best_model = "term"}) == 3);  // a loss of the task, by whatever name
  CHECK(best_of({.metric_for_best_model = "eval_loss", .greater_is_better = Switch::kTrue}) == 5);
  CHECK(best_of({.metric_for_best_model = "accuracy"}) == 3);
  CHECK(best_of({.metric_for_best_model = "accuracy", .greater_is_better = Switch::kFalse}) == 5);
  const absl::Status unknown =
      Train({.max_steps = 6, .eval_steps = 2, .best_model = {.metric_for_best_model = "f1"}}, {1}).result.status();
  CHECK(unknown.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(unknown.message(), "no 'f1'; it gives accuracy, loss, order, term"));
}

TEST_CASE("an evaluation that fails after the last step does not lose the steps before it") {
  const TempFolder folder;
  const Trained trained = Train({.output_dir = folder.path(), .max_steps = 6}, {1}, 0, /*fails=*/true);
  CHECK(absl::StrContains(trained.result.status().message(), "no held-out data"));
  CHECK(CheckpointsIn(folder.path()) == Steps{6});
}

}  // namespace best_model
}  // namespace distill
