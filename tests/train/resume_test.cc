// What a run goes on from: weights, buffers, and the checkpoints that are asked for.

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "libdistill/store/safetensors.h"
#include "libdistill/train/trainer.h"
#include "libdistill/train/trainer_state.h"
#include "tests/support/catch.h"
#include "tests/support/counted_task.h"
#include "tests/support/temp_folder.h"

namespace distill {
namespace {

namespace fs = std::filesystem;

using testing::TempFolder;

// A user's module with statistics of its own, as a batch norm has them.
struct Scale : torch::nn::Module {
  Scale() {
    weight = register_parameter("weight", torch::zeros({1}));
    mean = register_buffer("mean", torch::zeros({1}));
    batches = register_buffer("batches", torch::zeros({}, torch::kInt64));
    seen = register_buffer("seen", torch::zeros({2}, torch::kBool));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::NoGradGuard no_grad;
    mean.mul_(0.9).add_(x.mean() * 0.1);
    batches.add_(1);
    seen[0] = true;
    const torch::AutoGradMode grad(true);
    return torch::dropout(x, 0.3, is_training()) * weight + mean;  // which makes the random state matter
  }
  torch::Tensor weight, mean, batches, seen;
};

class Noise : public testing::CountedTask {
 public:
  explicit Noise(Scale& module) : module_(module) {}
  int64_t steps_per_epoch() const override { return 10; }
  absl::StatusOr<std::vector<MicroStep>> NextStep() override {
    const torch::Tensor x = torch::sin(torch::arange(4).to(torch::kFloat32) + static_cast<double>(made_++));
    return std::vector<MicroStep>{
        {.counts = {4}, .num_tokens = 4, .num_samples = 4, .forward = [this, x](const PassScale& scale) {
           progress.push_back(scale.progress);
           return Losses{{"loss", (module_.forward(x) - 1).square().sum(), 4}};
         }}};
  }

  std::vector<double> progress;  // that each pass was told

 private:
  Scale& module_;
};

struct Outcome {
  absl::Status status;
  std::shared_ptr<Scale> module = std::make_shared<Scale>();
  std::vector<double> progress;
  int64_t batches() const { return module->batches.item<int64_t>(); }
};

Outcome Train(const std::string& folder, int64_t steps, const std::string& resume, int64_t save_steps = 7,
              bool overwrite = false) {
  RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
  Outcome outcome;
  auto trainer = Trainer::Create(run, outcome.module,
                                 {.output_dir = folder,
                                  .overwrite_output_dir = overwrite,
                                  .max_steps = steps,
                                  .learning_rate = 0.05,
                                  .lr_scheduler_type = SchedulerType::kConstant,
                                  .logging_steps = 0,
                                  .save_steps = save_steps,
                                  .resume_from_checkpoint = resume});
  REQUIRE(trainer.ok());
  Noise source(*outcome.module);
  outcome.status = (*trainer)->Fit(source).status();
  outcome.progress = source.progress;
  return outcome;
}

}  // namespace

TEST_CASE("a finished run that is extended ends with the bits of one that was as long from the start, buffers too") {
  const TempFolder whole, parts;
  const Outcome expected = Train(whole.path(), 20, "");
  REQUIRE(Train(parts.path(), 9, "").status.ok());
  const Outcome found = Train(parts.path(), 20, "latest");
  REQUIRE(found.status == absl::OkStatus());
  CHECK(torch::equal(found.module->weight, expected.module->weight));
  CHECK(torch::equal(found.module->mean, expected.module->mean));
  CHECK(found.batches() == 20);
  CHECK(found.module->seen[0].item<bool>());
  const auto saved = SafetensorsFile::Open(whole.path() + "/model.safetensors");
  REQUIRE(saved.ok());
  CHECK(static_cast<const float*>(saved->Load("mean")->data)[0] == expected.module->mean.item<float>());
  CHECK(static_cast<const int64_t*>(saved->Load("batches")->data)[0] == 20);
}

TEST_CASE("passes are told how far the run is, and those of a resumed run what the whole run's are told") {
  const TempFolder whole, parts;
  const std::vector<double> all = Train(whole.path(), 20, "").progress;
  REQUIRE(all.size() == 20);
  for (size_t i = 0; i < all.size(); ++i) CHECK(all[i] == static_cast<double>(i) / 19);
  const Outcome rest = Train(parts.path(), 20, whole.path() + "/checkpoint-14");
  REQUIRE(rest.status == absl::OkStatus());
  CHECK(rest.progress == std::vector<double>(all.begin() + 14, all.end()));
  const TempFolder one;
  CHECK(Train(one.path(), 1, "").progress == std::vector<double>{1});
}

TEST_CASE("'latest' starts anew where there is no checkpoint at all, and 'True' goes on from one") {
  const TempFolder folder;
  REQUIRE(Train(folder.path(), 9, "latest").status == absl::OkStatus());
  CHECK(Train(folder.path(), 9, "True").batches() == 9);  // of a finished run: nothing is left to do
}

TEST_CASE("a new run is kept out of a folder with checkpoints of another one, which stays as it is") {
  const TempFolder folder;
  REQUIRE(Train(folder.path(), 9, "").status == absl::OkStatus());
  for (const char* no : {"", "false", "False", "none"}) {
    RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
    const auto refused =
        Trainer::Create(run, std::make_shared<Scale>(), {.output_dir = folder.path(), .resume_from_checkpoint = no});
    CHECK(refused.status().code() == absl::StatusCode::kInvalidArgument);
    for (const char* part :
         {"/checkpoint-9", "resume_from_checkpoint", "latest", "another output_dir", "overwrite_output_dir"}) {
      INFO(part);
      CHECK(absl::StrContains(refused.status().message(), part));
    }
  }
  CHECK(Train(folder.path(), 9, "latest").batches() == 9);
}

TEST_CASE("a run is kept out of a folder with another one's model, unless it may overwrite it") {
  const TempFolder folder;
  REQUIRE(Train(folder.path(), 9, "", /*save_steps=*/0).status == absl::OkStatus());
  for (const char* resume : {"", "latest"}) {  // "latest" finds no checkpoint, and would start anew
    RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
    TrainerOptions options{.output_dir = folder.path(), .resume_from_checkpoint = resume};
    const auto refused = Trainer::Create(run, std::make_shared<Scale>(), options);
    CHECK(refused.status().code() == absl::StatusCode::kInvalidArgument);
    for (const char* part : {"model.safetensors", "another output_dir", "overwrite_output_dir to true"}) {
      INFO(part);
      CHECK(absl::StrContains(refused.status().message(), part));
    }
    CHECK_FALSE(WillResume(options));
  }
  CHECK(Train(folder.path(), 8, "", /*save_steps=*/0, /*overwrite=*/true).batches() == 8);
  TempFolder notes;  // what is no run's is in nobody's way
  notes.Write("notes.txt", "x");
  CHECK(Train(notes.path(), 9, "").status == absl::OkStatus());
}

TEST_CASE("overwriting removes another run's checkpoints, but not those that the run resumes from") {
  const TempFolder folder;
  REQUIRE(Train(folder.path(), 20, "").status == absl::OkStatus());
  CHECK(WillResume({.output_dir = folder.path(), .resume_from_checkpoint = "latest"}));
  CHECK(Train(folder.path(), 26, "latest", 6, /*overwrite=*/true).batches() == 26);
  CHECK(fs::exists(folder.path() + "/checkpoint-7"));
  CHECK(fs::exists(folder.path() + "/checkpoint-24"));
  CHECK(Train(folder.path(), 9, "", 5, /*overwrite=*/true).batches() == 9);
  CHECK(fs::exists(folder.path() + "/checkpoint-5"));
  CHECK_FALSE(fs::exists(folder.path() + "/checkpoint-7"));
  CHECK_FALSE(fs::exists(folder.path() + "/checkpoint-14"));
}

TEST_CASE("a checkpoint of another folder excuses no folder with checkpoints, and survives their removal") {
  const TempFolder from, folder;
  REQUIRE(Train(from.path(), 9, "").status == absl::OkStatus());
  REQUIRE(Train(folder.path(), 9, "", 4).status == absl::OkStatus());
  const std::string named = from.path() + "/checkpoint-7";
  RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
  const absl::Status refused =
      Trainer::Create(run, std::make_shared<Scale>(), {.output_dir = folder.path(), .resume_from_checkpoint = named})
          .status();
  CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(refused.message(), folder.path() + "/checkpoint-9"));
  const absl::Status missing = Trainer::Create(run, std::make_shared<Scale>(),
                                               {.output_dir = folder.path(), .resume_from_checkpoint = "checkpoint-9"})
                                   .status();
  CHECK(missing.code() == absl::StatusCode::kNotFound);
  CHECK(
      absl::StrContains(missing.message(), "no folder checkpoint-9; did you mean " + folder.path() + "/checkpoint-9?"));
  std::ofstream(folder.path() + "/metrics.jsonl") << "{\"step\":1,\"loss\":0.0}\n";  // Train logs no step
  CHECK(Train(folder.path(), 13, named, 12, /*overwrite=*/true).batches() == 13);
  CHECK(fs::file_size(folder.path() + "/metrics.jsonl") == 0);
  CHECK(fs::exists(folder.path() + "/checkpoint-12"));
  CHECK_FALSE(fs::exists(folder.path() + "/checkpoint-4"));
  CHECK_FALSE(fs::exists(folder.path() + "/checkpoint-8"));
  CHECK(fs::exists(named));
  // In another form, it is the folder's own.
  const std::string own = from.path() + "/../" + fs::path(folder.path()).filename().string() + "/checkpoint-12/";
  CHECK(Train(folder.path(), 15, own).batches() == 15);
  fs::create_directory_symlink(named, folder.path() + "/checkpoint-1");
  CHECK(Train(folder.path(), 9, named, 9, /*overwrite=*/true).status == absl::OkStatus());
  CHECK(fs::exists(folder.path() + "/checkpoint-1/manifest.pb"));  // the one that the run went on from
}

TEST_CASE("a run that may overwrite removes nothing of another program, nor anything where its log cannot be opened") {
  const TempFolder folder;
  REQUIRE(Train(folder.path(), 9, "").status == absl::OkStatus());
  fs::create_directory(folder.path() + "/checkpoint-500");
  std::ofstream(folder.path() + "/checkpoint-500/trainer_state.json") << "{}";
  RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
  const absl::Status refused =
      Trainer::Create(run, std::make_shared<Scale>(), {.output_dir = folder.path(), .overwrite_output_dir = true})
          .status();
  CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(absl::StrContains(refused.message(), folder.path() + "/checkpoint-500"));
  fs::remove_all(folder.path() + "/checkpoint-500");
  fs::remove(folder.path() + "/metrics.jsonl");
  fs::create_directory(folder.path() + "/metrics.jsonl");
  CHECK_FALSE(Train(folder.path(), 9, "", 7, /*overwrite=*/true).status.ok());
  CHECK(fs::exists(folder.path() + "/checkpoint-7"));
}

TEST_CASE("an interrupted run is told what to resume from, or why there is no checkpoint") {
  const TempFolder folder, elsewhere;
  REQUIRE(Train(folder.path(), 20, "").status == absl::OkStatus());
  const TrainerOptions options{.output_dir = folder.path(), .save_steps = 7};
  const auto says = [](const TrainerOptions& options, const std::string& checkpoint, const char* part) {
    INFO(HowToResume(options, checkpoint));
    CHECK(absl::StrContains(HowToResume(options, checkpoint), part));
  };
  const std::string newest = folder.path() + "/checkpoint-20", older = folder.path() + "/checkpoint-14";
  says(options, newest, "/checkpoint-20; ");
  says(options, newest, "--resume_from_checkpoint latest");
  says(options, older, ("--resume_from_checkpoint " + older).c_str());
  says({.output_dir = elsewhere.path()}, newest, ("--resume_from_checkpoint " + newest).c_str());
  says(options, "", "no checkpoint yet: save_steps is 7");
  says({.output_dir = folder.path(), .save_steps = 0}, "", "no checkpoint: save_steps is 0");
  says({.output_dir = folder.path(), .save_strategy = SaveStrategy::kNo}, "", "no checkpoint: save_strategy is no");
  says({.output_dir = folder.path(), .save_strategy = SaveStrategy::kEpoch}, "", "no checkpoint yet: save_strategy is");
  says({}, "", "without output_dir");
}

TEST_CASE("curves of an earlier run leave with its log, those of a resumed one stay") {
  const auto curves = [](const TempFolder& folder) {
    return std::distance(fs::directory_iterator(folder.path() + "/tensorboard"), fs::directory_iterator());
  };
  const TempFolder folder;
  for (const int64_t save_steps : {0, 0, 7}) {
    REQUIRE(Train(folder.path(), 9, "", save_steps, /*overwrite=*/true).status == absl::OkStatus());
    CHECK(curves(folder) == 1);
  }
  REQUIRE(Train(folder.path(), 9, "latest").status == absl::OkStatus());
  CHECK(curves(folder) == 2);
}

TEST_CASE("'latest' with damaged checkpoints only is an error that names the file") {
  const TempFolder folder;
  REQUIRE(Train(folder.path(), 9, "").status.ok());
  for (const char* step : {"7", "9"}) {
    fs::resize_file(folder.path() + "/checkpoint-" + step + "/optimizer.safetensors", 30);
  }
  const absl::Status status = Train(folder.path(), 9, "latest").status;
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK(absl::StrContains(status.message(), "checkpoint-9/optimizer.safetensors"));
}

TEST_CASE("a save that fails leaves no draft, and the next one clears those of crashed runs") {
  const TempFolder folder;
  RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
  auto module = std::make_shared<Scale>();
  auto trainer = Trainer::Create(run, module, {.output_dir = folder.path(), .max_steps = 2, .save_steps = 1});
  REQUIRE(trainer.ok());
  Noise source(*module);
  source.save = [](const std::string&) { return absl::ResourceExhaustedError("no space left"); };
  CHECK(
      absl::StrContains((*trainer)->Fit(source).status().message(), "saving the checkpoint of step 1: no space left"));
  CHECK_FALSE(fs::exists(folder.path() + "/.checkpoint-1.tmp"));
  fs::create_directory(folder.path() + "/.checkpoint-3.tmp");  // as a crash leaves it
  REQUIRE(Train(folder.path(), 9, "").status == absl::OkStatus());
  CHECK(fs::exists(folder.path() + "/checkpoint-7/manifest.pb"));
  CHECK_FALSE(fs::exists(folder.path() + "/.checkpoint-3.tmp"));
}

TEST_CASE("a buffer of a type that no checkpoint holds is refused by name") {
  RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
  auto module = std::make_shared<Scale>();
  module->register_buffer("phases", torch::zeros({2}, torch::kComplexFloat));
  const absl::Status status = Trainer::Create(run, module, {}).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(status.message(), "buffer phases"));
}

}  // namespace distill
