// Teachers that answer with logits and with top-k values, trained with from the first step to an evaluation.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "libdistill/data/token_dataset.h"
#include "libdistill/task/distiller.h"
#include "libdistill/train/trainer.h"
#include "tests/support/catch.h"
#include "tests/task/bigram.h"

namespace distill {
namespace {

using testing::Bigram;

constexpr int64_t kVocabulary = 11;

enum class Form { kHead, kLogits, kTopK, kNothing };

// Answers for a model that no one else sees, as a server or a file would; k: of the likeliest tokens.
class Answering : public Teacher {
 public:
  Answering(Form form, int64_t k) : form_(form), k_(k), model_(std::make_shared<Bigram>(kVocabulary, 6, 1)) {
    model_->scaling = {.scale = 1.5, .softcap = 4};
  }
  absl::StatusOr<TeacherAnswer> Ask(const TokenBatch& batch, const TokenTensors& tensors,
                                    const TeacherRequest& request) override {
    const torch::NoGradGuard no_grad;
    for (const int64_t sample : batch.sample_ids) seen.insert(sample);
    if (form_ == Form::kNothing || !request.words) return TeacherAnswer();
    if (form_ == Form::kHead) return LiveTeacher(model_)->Ask(batch, tensors, request);
    const torch::Tensor states = model_->HiddenAt(tensors.input, tensors.positions);
    const torch::Tensor products =
        (states.matmul(model_->head_weight().t()) + model_->head_bias()) * model_->scaling.scale;
    const torch::Tensor logits = model_->scaling.softcap * torch::tanh(products / model_->scaling.softcap);
    if (form_ == Form::kLogits) return TeacherAnswer{.words = TeacherLogits{logits}};
    const auto [values, ids] = torch::log_softmax(logits, 1).topk(k_, 1);
    return TeacherAnswer{.words = TeacherTopK{values, ids}};
  }
  int64_t vocabulary() const override { return kVocabulary; }
  absl::StatusOr<Fields> Fingerprint() const override { return Fields{{"name", "bigram-1"}}; }

  std::set<int64_t> seen;

 private:
  const Form form_;
  const int64_t k_;
  const std::shared_ptr<Bigram> model_;
};

TokenBatches MakeBatches(int64_t samples, uint64_t seed) {
  std::vector<TokenSample> made;
  for (int32_t i = 0; i < samples; ++i) {
    const auto at = [&](int32_t place) { return static_cast<int32_t>((seed + i * 3 + place * 7) % kVocabulary); };
    made.push_back({{at(0), at(1), at(2), at(3), at(4)}, {0, 1, 1, 1, 1}});
  }
  auto batches = TokenBatches::Create(MakeTokenDataset(std::move(made)), 0, 1, {.rows_per_rank = 2});
  REQUIRE(batches.ok());
  return *std::move(batches);
}

struct Trained {
  absl::Status status;
  std::map<std::string, double> before, after;  // evaluations
  std::shared_ptr<Answering> teacher;
  std::map<std::string, torch::Tensor> weights;
};

Trained Train(Form form, int64_t k = 3, const DistillationOptions& options = {.alpha = 0.8, .chunk_tokens = 3}) {
  Trained trained;
  trained.teacher = std::make_shared<Answering>(form, k);
  const auto student = std::make_shared<Bigram>(kVocabulary, 5, 2);
  RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
  auto trainer = Trainer::Create(
      run, student, {.max_steps = 60, .learning_rate = 0.05, .warmup_ratio = 0, .logging_steps = 0, .save_steps = 0});
  const auto objective = LogitDistillation::Create(trained.teacher, student, options);
  REQUIRE(trainer.ok());
  REQUIRE(objective.ok());
  Distiller distiller(MakeBatches(9, 5), *objective);
  distiller.SetHeldOut(MakeBatches(4, 2));
  const auto before = (*trainer)->Evaluate(*distiller.evaluator());
  if (before.ok()) trained.before = *before;
  trained.status = (*trainer)->Fit(distiller).status();
  const auto after = (*trainer)->Evaluate(*distiller.evaluator());
  if (after.ok()) trained.after = *after;
  for (const auto& item : student->named_parameters()) trained.weights[item.key()] = item.value().detach();
  return trained;
}

TEST_CASE("a teacher that answers with logits trains as one that answers with states and its head") {
  const Trained head = Train(Form::kHead), logits = Train(Form::kLogits);
  REQUIRE(head.status.ok());
  REQUIRE(logits.status.ok());
  CHECK(logits.after.at("kl") < 0.5 * logits.before.at("kl"));
  for (const auto& [name, value] : head.after) {
    INFO(name);
    CHECK(logits.after.at(name) == Approx(value).epsilon(1e-3));
  }
  for (const auto& [name, weight] : head.weights) CHECK(torch::allclose(weight, logits.weights.at(name), 1e-3, 1e-4));
}

TEST_CASE("a teacher that names its likeliest tokens is learned from, and evaluated") {
  const Trained top = Train(Form::kTopK), all = Train(Form::kTopK, kVocabulary), logits = Train(Form::kLogits);
  REQUIRE(top.status.ok());
  REQUIRE(all.status.ok());
  CHECK(top.after.at("kl") < 0.5 * top.before.at("kl"));
  CHECK(top.after.at("loss") == Approx(0.8 * top.after.at("kl") + 0.2 * top.after.at("ce")));
  CHECK(top.before.at("kl") > 1.05 * logits.before.at("kl"));  // what it does not name must not come
  CHECK(all.after.at("kl") == Approx(logits.after.at("kl")).epsilon(1e-3));
  CHECK(top.teacher->seen == std::set<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("what a teacher's answer cannot be used for is an error of the first step, with what to do") {
  const Trained top = Train(Form::kTopK, 3, {.beta = 0.5});
  CHECK(top.status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(top.status.message(), "set beta to 0"));
  const Trained none = Train(Form::kNothing);
  CHECK(none.status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(none.status.message(), "answered without any"));
  const auto masked = MaskedDistillation::Create(std::make_shared<Answering>(Form::kTopK, 3),
                                                 std::make_shared<Bigram>(kVocabulary, 5, 2), {});
  CHECK(masked.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(masked.status().message(), "without states"));
}

TEST_CASE("which teacher it is must be the same on every rank") {
  const auto student = std::make_shared<Bigram>(kVocabulary, 5, 2);
  const auto teacher = std::make_shared<Answering>(Form::kTopK, 3);
  const std::pair<std::string, std::string> field = {"name of the teacher", "bigram-1"};
  const Fields fields = LogitDistillation::Create(teacher, student, {}).value()->Fingerprint().value();
  CHECK(std::count(fields.begin(), fields.end(), field) == 1);
  const auto masked = MaskedDistillation::Create(teacher, student, {.cosine_weight = 0}).value();
  const Fields of_masked = masked->Fingerprint().value();
  CHECK(std::count(of_masked.begin(), of_masked.end(), field) == 1);
}

}  // namespace
}  // namespace distill
