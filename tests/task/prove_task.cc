#include "tests/task/prove_task.h"

#include <sys/types.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/comm/create.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/train/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/temp_folder.h"

namespace distill::testing {
namespace {

constexpr int64_t kKilledAt = 6, kSavedBeforeIt = 4, kSavedEvery = 2, kEvaluatedEvery = 3;

// Ends its rank as a machine that is switched off does.
class KillsAt : public Observer {
 public:
  explicit KillsAt(int64_t step) : step_(step) {}
  absl::Status OnStep(const StepRecord& record, TrainingControl&) override {
    if (record.step == step_) raise(SIGKILL);
    return absl::OkStatus();
  }

 private:
  const int64_t step_;
};

// That a resumed run begins behind its checkpoint, and not anew.
class BeginsAt : public Observer {
 public:
  explicit BeginsAt(int64_t step) : step_(step) {}
  absl::Status OnStep(const StepRecord& record, TrainingControl&) override {
    if (has_begun_ || record.step == step_) return has_begun_ = true, absl::OkStatus();
    return absl::InternalError(absl::StrCat("the resumed run began with step ", record.step, ", not ", step_));
  }

 private:
  const int64_t step_;
  bool has_begun_ = false;
};

absl::Status Train(const World& world, const TaskMaker& make, const Proof& proof, const std::string& folder,
                   int64_t kill_at, const std::string& resume) {
  torch::set_num_threads(1);
  DISTILL_ASSIGN_OR_RETURN(auto comm, CreateCommunicator(world, {.timeout = absl::Seconds(60)}));
  RunContext run(world, std::move(comm), torch::kCPU);
  DISTILL_ASSIGN_OR_RETURN(TaskToProve made, make(world));
  TrainerOptions options{.output_dir = folder, .max_steps = proof.steps, .learning_rate = proof.learning_rate};
  options.weight_decay = 0;
  options.warmup_ratio = 0;
  options.save_steps = kSavedEvery;
  options.eval_steps = kEvaluatedEvery;
  options.resume_from_checkpoint = resume;
  DISTILL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(run, made.module, options));
  if (kill_at > 0) trainer->AddObserver(std::make_shared<KillsAt>(kill_at));
  if (!resume.empty()) trainer->AddObserver(std::make_shared<BeginsAt>(kSavedBeforeIt + 1));
  return trainer->Fit(*made.task).status();
}

std::vector<nlohmann::json> Records(const std::string& folder) {
  std::vector<nlohmann::json> records;
  const std::string text = ReadFile(folder + "/metrics.jsonl").value();
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    records.push_back(nlohmann::json::parse(line));
    records.back().erase("tokens_per_second");
    records.back().erase("samples_per_second");
    records.back().erase("data_wait_seconds");
    records.back().erase("time");
  }
  return records;
}

void CheckNear(const std::vector<nlohmann::json>& found, const std::vector<nlohmann::json>& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    for (const auto& [name, value] : expected[i].items()) {
      INFO("record " << i << ", " << name);
      REQUIRE(found[i].contains(name));
      CHECK(found[i][name].get<double>() == Approx(value.get<double>()).epsilon(1e-3).margin(1e-5));
    }
  }
}

}  // namespace

void ProveTask(const TaskMaker& make, const Proof& proof) {
  const TempFolder one, two, killed;
  const auto limit = absl::Seconds(120);
  const auto train = [&](int world_size, const std::string& folder, int64_t kill_at, const std::string& resume) {
    return RunRanks(world_size, limit, [&](const World& world) {
      return Train(world, make, proof, folder, world.rank == world_size - 1 ? kill_at : 0, resume);
    });
  };
  REQUIRE(Failures(train(1, one.path(), 0, "")) == "");
  REQUIRE(Failures(train(2, two.path(), 0, "")) == "");
  const std::vector<nlohmann::json> of_one = Records(one.path()), of_two = Records(two.path());
  CheckNear(of_two, of_one);

  const std::string metric = "eval_" + proof.metric;
  REQUIRE(of_one.back().contains(metric));
  INFO(of_one.back().dump());
  CHECK(of_one.back()[metric].get<double>() >= proof.at_least);
  CHECK(of_one.back()[metric].get<double>() <= proof.at_most);

  const auto outcomes = train(2, killed.path(), kKilledAt, "");
  CHECK(outcomes[1].signal == SIGKILL);
  CHECK(absl::StrContains(outcomes[0].status.message(), "rank 1"));
  REQUIRE(Failures(train(2, killed.path(), 0, "latest")) == "");
  CHECK(Records(killed.path()) == of_two);
  CHECK(ReadFile(killed.path() + "/model.safetensors").value() == ReadFile(two.path() + "/model.safetensors").value());
}

}  // namespace distill::testing
