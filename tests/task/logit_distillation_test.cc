// LogitDistillation: the reference loss over the right positions, for models that a user wrote.
#include "libdistill/task/logit_distillation.h"

#include "libdistill/data/token_dataset.h"
#include "libdistill/task/device_batch.h"
#include "libdistill/task/distiller.h"
#include "libdistill/train/trainer.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/task/bigram.h"

namespace distill {
namespace {

using testing::Bigram;

TokenBatch Batch() {
  TokenBatch batch;
  batch.rows = 2;
  batch.length = 4;
  batch.input_ids = {1, 2, 3, 4, 5, 6, 0, 0};
  batch.labels = {kIgnoreLabel, 3, 4, kIgnoreLabel, 6, kIgnoreLabel, kIgnoreLabel, kIgnoreLabel};
  batch.document_starts = {{0, 4}, {0, 2}};
  return batch;
}

TEST_CASE("logit distillation takes the loss where labels are, and nowhere else") {
  auto teacher = std::make_shared<Bigram>(9, 6, 1), student = std::make_shared<Bigram>(11, 5, 2);
  auto distiller = LogitDistillation::CreateLive(teacher, student, {.temperature = 3.0, .alpha = 0.25});
  REQUIRE(distiller.ok());
  CHECK((*distiller)->vocabulary() == 9);
  int64_t bytes = 0;
  for (const torch::Tensor& weight : teacher->parameters()) bytes += static_cast<int64_t>(weight.nbytes());
  CHECK((*distiller)->HeldMemory(torch::kCPU) == NamedBytes{{kTeacherWeights, bytes}});
  CHECK((*distiller)->HeldMemory(torch::kCUDA) == NamedBytes{{kTeacherWeights, 0}});
  const Losses sum = (*distiller)->Forward(Batch(), {});
  CHECK(sum.Find("loss")->count == 3);

  const torch::Tensor before = torch::tensor({2, 3, 5}), labels = torch::tensor({3, 4, 6});
  DistillationInputs inputs;
  inputs.student_hidden = student->Hidden({before, {}});
  inputs.student_weight = student->head_weight();
  inputs.student_bias = student->head_bias();
  inputs.teacher_hidden = teacher->Hidden({before, {}});
  inputs.teacher_weight = teacher->head_weight();
  inputs.teacher_bias = teacher->head_bias();
  inputs.labels = labels;
  const auto expected = ReferenceDistillationLoss(inputs, {.temperature = 3.0, .alpha = 0.25, .vocabulary = 9});
  CHECK(sum.Find("loss")->sum.item<double>() == Approx(expected.loss.item<double>()).epsilon(1e-5));
  CHECK(sum.Find("kl")->sum.item<double>() == Approx(expected.divergence.item<double>()).epsilon(1e-5));
  CHECK(sum.Find("ce")->sum.item<double>() == Approx(expected.ce.item<double>()).epsilon(1e-5));

  sum.Find("loss")->sum.backward();
  CHECK(student->parameters()[1].grad().narrow(0, 9, 2).abs().max().item<double>() == 0.0);  // padded rows
  CHECK_FALSE(teacher->parameters()[0].grad().defined());
}

// What the distillers have to give: the reference loss with each model's own scaling.
DistillationSums ScaledReference(Bigram& teacher, Bigram& student, const torch::Tensor& ids,
                                 const DistillationOptions& options) {
  return ReferenceDistillationLoss({.student_hidden = student.Hidden({ids, {}}),
                                    .student_weight = student.head_weight(),
                                    .student_bias = student.head_bias(),
                                    .teacher_hidden = teacher.Hidden({ids, {}}),
                                    .teacher_weight = teacher.head_weight(),
                                    .teacher_bias = teacher.head_bias(),
                                    .labels = torch::tensor({3, 4, 6}),
                                    .student_logits = student.scaling,
                                    .teacher_logits = teacher.scaling},
                                   options);
}

TEST_CASE("distillers scale and cap the logits of each model as it says") {
  auto teacher = std::make_shared<Bigram>(9, 6, 1), student = std::make_shared<Bigram>(9, 6, 2);
  const torch::Tensor before = torch::tensor({2, 3, 5});
  const auto distiller = LogitDistillation::CreateLive(teacher, student, {.temperature = 3.0, .alpha = 0.25}).value();
  const auto masked =
      MaskedDistillation::Create(LiveTeacher(teacher), student,
                                 {.temperature = 3.0, .kl_weight = 1, .mlm_weight = 1, .cosine_weight = 0})
          .value();
  TokenBatch words;  // of which all three tokens have a loss
  words.rows = 1;
  words.length = 3;
  words.input_ids = {2, 3, 5};
  words.labels = {3, 4, 6};
  words.document_starts = {{0, 3}};
  const LogitScaling scalings[] = {{}, {.scale = 0.25}, {.softcap = 1.5}, {.scale = 2, .softcap = 3}};
  for (const LogitScaling& of_teacher : scalings) {
    for (const LogitScaling& of_student : scalings) {
      INFO(of_teacher.scale << " " << of_teacher.softcap << ", " << of_student.scale << " " << of_student.softcap);
      teacher->scaling = of_teacher;
      student->scaling = of_student;
      const DistillationSums expected = ScaledReference(*teacher, *student, before, {.temperature = 3.0});
      const Losses sum = distiller->Forward(Batch(), {}), of_masked = masked->Forward(words, {});
      for (const Losses* found : {&sum, &of_masked}) {
        CHECK(found->Find("kl")->sum.item<double>() == Approx(expected.divergence.item<double>()).epsilon(1e-5));
      }
      CHECK(sum.Find("ce")->sum.item<double>() == Approx(expected.ce.item<double>()).epsilon(1e-5));
      CHECK(of_masked.Find("mlm")->sum.item<double>() == Approx(expected.ce.item<double>()).epsilon(1e-5));
    }
  }
}

TEST_CASE("each divergence is reported beside ce, by its own name") {
  auto teacher = std::make_shared<Bigram>(9, 6, 1), student = std::make_shared<Bigram>(9, 6, 2);
  const torch::Tensor before = torch::tensor({2, 3, 5});
  const std::vector<std::pair<std::string, DistillationOptions>> named = {
      {"kl", {}},
      {"reverse_kl", {.beta = 1}},
      {"jsd", {.beta = 0.3}},
      {"jsd", {.beta = 0.3, .divergence = Divergence::kJensenShannon}},
      {"topk_kl", {.divergence = Divergence::kTopKKl, .top_k_logits = 3}},
      {"skewed_kl", {.divergence = Divergence::kSkewedKl, .skew = 0.3}},
      {"skewed_reverse_kl", {.divergence = Divergence::kSkewedReverseKl}},
      {"total_variation", {.divergence = Divergence::kTotalVariation}},
      {"mse", {.divergence = Divergence::kMse}}};
  for (const auto& [name, options] : named) {
    INFO(name);
    const auto distiller = LogitDistillation::CreateLive(teacher, student, options).value();
    CHECK(distiller->Reported() == std::vector<std::string>{"ce", name});
    const Losses losses = distiller->Forward(Batch(), {});
    REQUIRE(losses.terms.size() == 3);
    const DistillationSums expected = ScaledReference(*teacher, *student, before, options);
    CHECK(losses.Find(name)->sum.item<double>() == Approx(expected.divergence.item<double>()).epsilon(1e-5));
    CHECK(losses.Find("loss")->sum.item<double>() == Approx(expected.loss.item<double>()).epsilon(1e-5));
  }
}

// Weights that change over the run.
DistillationOptions Scheduled() {
  return {.temperature = 4,
          .alpha = 0,
          .beta = 0.2,
          .alpha_schedule = {WeightShape::kLinear, 0.75},
          .temperature_schedule = {WeightShape::kCosine, 1.0},
          .beta_schedule = {WeightShape::kLinear, 0.6}};
}

TEST_CASE("a pass has the weights of its step, and an evaluation those of the last one") {
  auto teacher = std::make_shared<Bigram>(9, 6, 1), student = std::make_shared<Bigram>(9, 6, 2);
  const auto distiller = LogitDistillation::CreateLive(teacher, student, Scheduled()).value();
  CHECK(distiller->Reported() == std::vector<std::string>{"ce", "jsd"});  // also while alpha is 0
  const std::pair<PassScale, DistillationOptions> passes[] = {
      {{.progress = 0}, {.temperature = 4, .alpha = 0, .beta = 0.2}},
      {{.progress = 0.5}, {.temperature = 2.5, .alpha = 0.375, .beta = 0.4}},
      {{}, {.temperature = 1, .alpha = 0.75, .beta = 0.6}}};
  for (const auto& [scale, options] : passes) {
    const DistillationSums expected = ScaledReference(*teacher, *student, torch::tensor({2, 3, 5}), options);
    const Losses found = distiller->Forward(Batch(), scale);
    INFO(scale.progress);
    CHECK(found.Find("loss")->sum.item<double>() == Approx(expected.loss.item<double>()).epsilon(1e-5));
    CHECK(found.Find("jsd")->sum.item<double>() == Approx(expected.divergence.item<double>()).epsilon(1e-5));
  }
  CHECK(LogitDistillation::CreateLive(nullptr, student, Scheduled()).status().message() ==
        "alpha_end: 0.75 wants a teacher, and there is none");
}

// The student's weights after 12 steps; with a checkpoint at each sixth where `folder` is none of "".
std::vector<torch::Tensor> TrainScheduled(const DistillationOptions& options, const std::string& folder,
                                          const std::string& resume) {
  auto teacher = std::make_shared<Bigram>(9, 6, 1), student = std::make_shared<Bigram>(9, 5, 2);
  auto batches = TokenBatches::Create(
      MakeTokenDataset({{{1, 2, 3, 4}, {0, 1, 1, 1}}, {{5, 2, 8}, {0, 1, 1}}, {{7, 6, 3, 1}, {0, 0, 1, 1}}}), 0, 1, {});
  RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
  auto trainer = Trainer::Create(run, student,
                                 {.output_dir = folder,
                                  .max_steps = 12,
                                  .learning_rate = 0.05,
                                  .warmup_ratio = 0,
                                  .logging_steps = 0,
                                  .save_steps = 6,
                                  .resume_from_checkpoint = resume});
  REQUIRE((batches.ok() && trainer.ok()));
  auto distiller = Distiller::Create(teacher, student, *std::move(batches), options);
  REQUIRE(distiller.ok());
  REQUIRE((*trainer)->Fit(**distiller).ok());
  std::vector<torch::Tensor> weights;
  for (const torch::Tensor& weight : student->parameters()) weights.push_back(weight.detach());
  return weights;
}

TEST_CASE("a run with schedules that is resumed ends with the bits of one that was not") {
  const testing::TempFolder whole, parts, constant;
  const std::vector<torch::Tensor> expected = TrainScheduled(Scheduled(), whole.path(), "");
  const std::vector<torch::Tensor> found = TrainScheduled(Scheduled(), parts.path(), whole.path() + "/checkpoint-6");
  const std::vector<torch::Tensor> other = TrainScheduled(OptionsAt(Scheduled(), 1), constant.path(), "");
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CHECK(torch::equal(found[i], expected[i]));
    CHECK_FALSE(torch::equal(other[i], expected[i]));
  }
}

TEST_CASE("a teacher that the loss does not need is asked in evaluations alone") {
  auto teacher = std::make_shared<Bigram>(9, 6, 1), student = std::make_shared<Bigram>(11, 5, 2);
  auto distiller = LogitDistillation::CreateLive(teacher, student, {.alpha = 0});
  REQUIRE(distiller.ok());
  const Losses trained = (*distiller)->Forward(Batch(), {});
  CHECK(teacher->passes == 0);
  CHECK(trained.Find("kl") == nullptr);
  const torch::NoGradGuard no_grad;
  const Losses evaluated = (*distiller)->Forward(Batch(), {});
  CHECK(teacher->passes == 1);
  CHECK(evaluated.Find("kl")->sum.item<double>() > 0);
  CHECK(evaluated.Find("loss")->sum.item<double>() == Approx(trained.Find("loss")->sum.item<double>()).epsilon(1e-6));
}

// Trains a student of 11 rows from a teacher of 9, with decay, and gives {parameter before, after} by name.
std::map<std::string, std::pair<torch::Tensor, torch::Tensor>> TrainPadded() {
  auto teacher = std::make_shared<Bigram>(9, 6, 1), student = std::make_shared<Bigram>(11, 5, 2);
  std::map<std::string, std::pair<torch::Tensor, torch::Tensor>> tensors;
  for (const auto& item : student->named_parameters()) tensors[item.key()].first = item.value().detach().clone();
  auto batches = TokenBatches::Create(MakeTokenDataset({{{1, 2, 3, 4}, {0, 1, 1, 1}}}), 0, 1, {});
  RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
  auto trainer = Trainer::Create(run, student,
                                 {.max_steps = 5,
                                  .learning_rate = 0.1,
                                  .weight_decay = 0.5,
                                  .warmup_ratio = 0,
                                  .logging_steps = 0,
                                  .save_steps = 0});
  REQUIRE((batches.ok() && trainer.ok()));
  auto distiller = Distiller::Create(teacher, student, *std::move(batches), {});
  REQUIRE(distiller.ok());
  REQUIRE((*trainer)->Fit(**distiller).ok());
  for (const auto& item : student->named_parameters()) tensors[item.key()].second = item.value().detach();
  return tensors;
}

TEST_CASE("rows of a padded vocabulary stay as they are, without a word of the user's program") {
  const auto tensors = TrainPadded();
  REQUIRE(tensors.size() == 3);
  for (const auto& [name, pair] : tensors) {
    INFO(name);
    CHECK(torch::equal(pair.first.narrow(0, 9, 2), pair.second.narrow(0, 9, 2)));
    CHECK_FALSE(torch::equal(pair.first.narrow(0, 0, 9), pair.second.narrow(0, 0, 9)));
  }
}

TEST_CASE("a vocabulary below both heads is kept to") {
  auto model = std::make_shared<Bigram>(9, 5, 2);
  auto distiller = LogitDistillation::CreateLive(nullptr, model, {.alpha = 0.0, .vocabulary = 8});
  REQUIRE(distiller.ok());
  CHECK((*distiller)->vocabulary() == 8);
  (*distiller)->Forward(Batch(), {}).Find("loss")->sum.backward();
  CHECK(model->parameters()[1].grad()[8].abs().max().item<double>() == 0.0);
}

TEST_CASE("a batch without loss tokens costs nothing and counts nothing") {
  auto student = std::make_shared<Bigram>(9, 5, 2);
  auto distiller = LogitDistillation::CreateLive(nullptr, student, {.alpha = 0.0});
  REQUIRE(distiller.ok());
  TokenBatch batch = Batch();
  std::fill(batch.labels.begin(), batch.labels.end(), kIgnoreLabel);
  const Losses sum = (*distiller)->Forward(batch, {});
  CHECK((*distiller)->Counts(batch) == std::vector<int64_t>{0});
  CHECK(sum.terms.empty());
}

TEST_CASE("labels alone need no teacher, and report no KL") {
  auto student = std::make_shared<Bigram>(9, 5, 2);
  auto distiller = LogitDistillation::CreateLive(nullptr, student, {.alpha = 0.0});
  REQUIRE(distiller.ok());
  const Losses sum = (*distiller)->Forward(Batch(), {});
  CHECK(sum.Find("kl") == nullptr);
  CHECK((*distiller)->HeldMemory(torch::kCPU).empty());
  CHECK(sum.Find("loss")->sum.item<double>() == Approx(sum.Find("ce")->sum.item<double>()));
}

TEST_CASE("options that make no sense are refused by name") {
  auto model = std::make_shared<Bigram>(9, 5, 2);
  const auto message = [&](std::shared_ptr<LanguageModel> teacher, const DistillationOptions& options) {
    return std::string(LogitDistillation::CreateLive(std::move(teacher), model, options).status().message());
  };
  CHECK(message(model, {.temperature = 0}).find("temperature") != std::string::npos);
  CHECK(message(model, {.alpha = 1.5}).find("alpha") != std::string::npos);
  CHECK(message(nullptr, {.alpha = 0.5}).find("teacher") != std::string::npos);
  CHECK(message(model, {.divergence = Divergence::kMse, .skew = 0.2}).find("skew: the divergence mse") == 0);
  CHECK(message(model, {.vocabulary = 10}).find("9 rows") != std::string::npos);
}

}  // namespace
}  // namespace distill
