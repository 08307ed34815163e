#include "examples/brain2text/phoneme_objective.h"

#include <ATen/ops/ctc_loss.h>
#include <ATen/ops/kl_div.h>

#include <limits>

#include "tests/support/catch.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

BrainModelOptions SmallBrain(int64_t units) {
  return {.n_input_features = 3,
          .n_units = units,
          .n_layers = 1,
          .n_classes = 4,
          .rnn_dropout = 0,
          .input_layer_dropout = 0,
          .patch_size = 2,
          .patch_stride = 1,
          .smooth_data = false,
          .sessions = "one,two"};
}

const std::vector<int64_t> kBins = {8, 5};  // of which patches make 7 and 4 frames

TensorBatch TwoTrials() {
  Batch batch;
  batch.sample_ids = {10, 11};
  std::vector<float> features;
  for (int i = 0; i < 2 * 8 * 3; ++i) features.push_back(static_cast<float>((i * 7) % 11) / 5 - 1);
  std::fill(features.end() - 9, features.end(), 0.0f);  // padding
  batch.tensors = {{"features", HostTensor(std::move(features), {2, 8, 3})},
                   {"features_lengths", HostTensor(kBins)},
                   {"targets", HostTensor(std::vector<int64_t>{1, 2, 3, 0}, {2, 2})},
                   {"targets_lengths", HostTensor(std::vector<int64_t>{2, 1})},
                   {"day", HostTensor(std::vector<int64_t>{1, 0})}};
  batch.counts["kl"] = 11;
  TensorBatch loaded(std::move(batch));
  loaded.Load(nullptr);
  return loaded;
}

TEST_CASE("without a teacher the loss is CTC over recordings") {
  const auto model = std::make_shared<DayGru>(SmallBrain(5), 1);
  const auto objective = PhonemeObjective::Create(model, nullptr, {});
  REQUIRE(objective.ok());
  const TensorBatch batch = TwoTrials();
  CHECK((*objective)->Counts(batch) == std::vector<int64_t>{2});
  const Losses losses = (*objective)->Forward(batch, {});
  REQUIRE(losses.terms.size() == 1);
  const auto output = model->forward(batch["features"], batch["features_lengths"], batch["day"]);
  double expected = 0;
  for (int64_t row = 0; row < 2; ++row) {
    const int64_t frames = kBins[static_cast<size_t>(row)] - 1, classes = 2 - row;
    const torch::Tensor of_row = output.log_probabilities.select(1, row).narrow(0, 0, frames).unsqueeze(1);
    const torch::Tensor target = batch["targets"][row].narrow(0, 0, classes).unsqueeze(0);
    expected += at::ctc_loss(of_row, target, torch::tensor({frames}), torch::tensor({classes}), 0, at::Reduction::Sum)
                    .item<double>();
  }
  CHECK(losses.terms[0].sum.item<double>() == Approx(expected).epsilon(1e-5));
}

TEST_CASE(
    "with a teacher the divergence is torch's, over each recording's own frames, times the temperature's square") {
  const auto student = std::make_shared<DayGru>(SmallBrain(5), 1), teacher = std::make_shared<DayGru>(SmallBrain(9), 2);
  const PhonemeOptions how = {.temperature = 2.5, .alpha = 0.7};
  const auto objective = PhonemeObjective::Create(student, teacher, how);
  INFO(objective.status());
  REQUIRE(objective.ok());
  const auto terms = (*objective)->LossTerms();
  REQUIRE(terms.size() == 2);
  CHECK((terms[0].name == "ctc" && terms[0].weight == Approx(0.3)));
  CHECK((terms[1].name == "kl" && terms[1].weight == Approx(0.7)));
  TensorBatch batch = TwoTrials();
  CHECK((*objective)->Counts(batch) == std::vector<int64_t>{2, 11});
  const Losses losses = (*objective)->Forward(batch, {});
  const auto run = [&](DayGru& model) {
    return model.forward(batch["features"], batch["features_lengths"], batch["day"]).log_probabilities /
           how.temperature;
  };
  const torch::Tensor p = run(*teacher).log_softmax(-1), q = run(*student).log_softmax(-1);
  double expected = 0;
  for (int64_t row = 0; row < 2; ++row) {
    const int64_t frames = kBins[static_cast<size_t>(row)] - 1;
    const auto of_row = [&](const torch::Tensor& x) { return x.select(1, row).narrow(0, 0, frames); };
    expected += at::kl_div(of_row(q), of_row(p), at::Reduction::Sum, /*log_target=*/true).item<double>();
  }
  const LossTerm* kl = losses.Find("kl");
  REQUIRE(kl != nullptr);
  CHECK(kl->count == 11);
  CHECK(kl->sum.item<double>() == Approx(expected * 2.5 * 2.5).epsilon(1e-4));
  kl->sum.backward();
  CHECK(student->named_parameters()["gru.classifier.weight"].grad().abs().sum().item<double>() > 0);
  CHECK_FALSE(teacher->named_parameters()["gru.classifier.weight"].grad().defined());
}

TEST_CASE("a student that is its teacher diverges from it by nothing") {
  const auto student = std::make_shared<DayGru>(SmallBrain(5), 1), teacher = std::make_shared<DayGru>(SmallBrain(5), 1);
  const auto objective = PhonemeObjective::Create(student, teacher, {});
  const Losses losses = (*objective)->Forward(TwoTrials(), {});
  CHECK(losses.Find("kl")->sum.item<double>() == Approx(0).margin(1e-5));
}

TEST_CASE("a teacher whose frames are others is refused") {
  const auto student = std::make_shared<DayGru>(SmallBrain(5), 1);
  const auto refused = [&](const auto& change) {
    BrainModelOptions options = SmallBrain(5);
    change(options);
    return std::string(PhonemeObjective::Create(student, std::make_shared<DayGru>(options), {}).status().message());
  };
  CHECK_THAT(refused([](auto& o) { o.patch_size = 3; }),
             Catch::Contains("teacher_model: patch_size is 3, and the student's 2"));
  CHECK_THAT(refused([](auto& o) { o.patch_stride = 2; }), Catch::Contains("patch_stride"));
  CHECK_THAT(refused([](auto& o) { o.n_classes = 5; }), Catch::Contains("n_classes"));
  CHECK_THAT(refused([](auto& o) { o.sessions = "two,one"; }), Catch::Contains("sessions"));
}

TEST_CASE("an evaluation gathers what is spelled, and makes error rates of it") {
  const auto model = std::make_shared<DayGru>(SmallBrain(5), 1);
  model->eval();
  for (const CtcDecoder decoder : {CtcDecoder::kGreedy, CtcDecoder::kBeam}) {
    const auto objective = PhonemeObjective::Create(model, nullptr, {.decoder = decoder});
    std::map<int64_t, SpelledTrial> heard;
    (*objective)->SetListener([&](const std::map<int64_t, SpelledTrial>& trials) {
      heard = trials;
      return absl::OkStatus();
    });
    const torch::NoGradGuard no_grad;
    Metrics metrics;
    REQUIRE((*objective)->Evaluate(TwoTrials(), metrics) == absl::OkStatus());
    const auto values = (*objective)->Summarize({{"loss", 1.5}}, metrics.predictions());
    INFO(values.status());
    REQUIRE(values.ok());
    REQUIRE(heard.size() == 2);
    CHECK((heard[10].target == std::vector<int64_t>{1, 2} && heard[11].target == std::vector<int64_t>{3}));
    CHECK((heard[10].day == 1 && heard[11].day == 0));
    double edits = 0;
    for (const auto& [sample, trial] : heard) edits += static_cast<double>(EditDistance(trial.spelled, trial.target));
    CHECK(values->at("phoneme_error_rate") == Approx(edits / 3));
    CHECK(values->count("phoneme_error_rate.two") == 1);
    CHECK(values->at("loss") == 1.5);
    CHECK(values->count("diphone_error_rate") == 0);
  }
}

TEST_CASE("of diphones the phonemes are judged, and they themselves beside") {
  BrainModelOptions options = SmallBrain(5);
  options.n_classes = kDiphoneClasses;
  const auto objective = PhonemeObjective::Create(std::make_shared<DayGru>(options, 1), nullptr, {});
  // Of 1 and 2 the way from one to the other is missing.
  const SpelledTrial trial = {.day = 1, .spelled = {1, 42, 84}, .target = {1, 42, 43, 84}};
  const auto values = (*objective)->Summarize({{"loss", 1.5}}, {{10, trial.ToBytes()}});
  INFO(values.status());
  REQUIRE(values.ok());
  CHECK(values->at("phoneme_error_rate") == 0);
  CHECK(values->at("phoneme_error_rate.two") == 0);
  CHECK(values->at("diphone_error_rate") == Approx(0.25));
}

}  // namespace
}  // namespace distill
