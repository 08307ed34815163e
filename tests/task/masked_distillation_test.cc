// MaskedDistillation against the recipe in torch's own operations.
#include "libdistill/task/masked_distillation.h"

#include <torch/nn/functional/loss.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "libdistill/core/description.h"
#include "libdistill/nn/encoder.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

using torch::Tensor;
namespace F = torch::nn::functional;

std::shared_ptr<Encoder> TinyEncoder(const std::string& layers, uint64_t seed, const std::string& width = "24") {
  const auto config = ParseEncoderConfig(R"({"model_type": "distilbert", "vocab_size": 61, "dim": )" + width +
                                             R"(, "hidden_dim": 40, "n_heads": 4, "max_position_embeddings": 32,
                                             "initializer_range": 0.3, "n_layers": )" +
                                             layers + "}",
                                         "tiny");
  REQUIRE(config.ok());
  return std::make_shared<Encoder>(*config, seed);
}

// Two rows of 6 and 4 tokens, of which three are masked.
TokenBatch MaskedBatch() {
  TokenBatch batch;
  batch.rows = 2;
  batch.length = 6;
  batch.input_ids = {5, 3, 7, 3, 9, 11, 13, 3, 17, 19, 0, 0};
  batch.labels.assign(12, kIgnoreLabel);
  batch.labels[1] = 23;
  batch.labels[3] = 29;
  batch.labels[7] = 31;
  batch.document_starts = {{0, 6}, {0, 4}};
  return batch;
}

// Of a step of this batch alone: weights of 5, 2 and 1, and 10 tokens a 3 labels.
const PassScale kScale{.factors = {5, 2 * (10.0 / 3.0), 1}};

struct EncodedRow {
  Tensor states, logits;
};
EncodedRow RowOf(Encoder& model, const std::vector<int64_t>& ids) {
  const Tensor states = model.Hidden({torch::tensor(ids, torch::kInt64).unsqueeze(0), {}})[0];
  return {states, model.HeadInput(states).matmul(model.head_weight().t()) + model.head_bias()};
}

// Sum over tokens of 5 T^2 KL + cosine, and 2 CE over the labels times 10 tokens a 3 labels.
Tensor ExpectedLoss(Encoder& teacher, Encoder& student) {
  const std::vector<std::vector<int64_t>> rows = {{5, 3, 7, 3, 9, 11}, {13, 3, 17, 19}};
  const std::vector<std::vector<int64_t>> labels = {{-100, 23, -100, 29, -100, -100}, {-100, 31, -100, -100}};
  Tensor loss = torch::zeros({});
  for (size_t i = 0; i < rows.size(); ++i) {
    const EncodedRow t = RowOf(teacher, rows[i]), s = RowOf(student, rows[i]);
    const Tensor kl = F::kl_div(torch::log_softmax(s.logits / 3, 1), torch::softmax(t.logits / 3, 1).detach(),
                                F::KLDivFuncOptions().reduction(torch::kSum));
    const Tensor ce = F::cross_entropy(s.logits, torch::tensor(labels[i], torch::kInt64),
                                       F::CrossEntropyFuncOptions().reduction(torch::kSum));
    const Tensor cosine = F::cosine_embedding_loss(s.states, t.states.detach(), torch::ones({s.states.size(0)}),
                                                   F::CosineEmbeddingLossFuncOptions().reduction(torch::kSum));
    loss = loss + 5 * 9 * kl + 2 * (10.0 / 3.0) * ce + cosine;
  }
  return loss;
}

TEST_CASE("the masked distiller's loss and gradients are the recipe's, padding left out") {
  const auto teacher = TinyEncoder("3", 1), student = TinyEncoder("2", 2);
  const auto distiller =
      MaskedDistillation::Create(LiveTeacher(teacher), student, {.temperature = 3, .chunk_tokens = 4});
  INFO(distiller.status());
  REQUIRE(distiller.ok());
  CHECK((*distiller)->Counts(MaskedBatch()) == std::vector<int64_t>{10, 3, 10});
  const Losses sum = (*distiller)->Forward(MaskedBatch(), kScale);
  REQUIRE(sum.terms.size() == 3);
  CHECK(sum.Find("kl")->count == 10);
  CHECK(sum.Find("mlm")->count == 3);
  CHECK(sum.Find("cosine")->count == 10);
  sum.total.backward();
  std::vector<Tensor> gradients;
  for (Tensor& parameter : student->parameters()) {
    gradients.push_back(parameter.grad().clone());
    parameter.mutable_grad().reset();
  }
  const Tensor expected = ExpectedLoss(*teacher, *student);
  CHECK(sum.total.item<double>() == Approx(expected.item<double>()).epsilon(1e-5));
  expected.backward();
  const auto parameters = student->named_parameters();
  for (size_t i = 0; i < gradients.size(); ++i) {
    INFO(parameters[i].key());
    const Tensor& wanted = parameters[i].value().grad();
    CHECK((gradients[i] - wanted).abs().max().item<double>() < 1e-4 * std::max(1.0, wanted.abs().max().item<double>()));
    CHECK_FALSE(teacher->parameters()[0].grad().defined());
  }
}

TEST_CASE(
    "in bfloat16 the masked distiller's loss is that of float32 within rounding, and every gradient is a number") {
  const auto teacher = TinyEncoder("3", 1), student = TinyEncoder("2", 2);
  const auto loss = [&] {
    const auto distiller = MaskedDistillation::Create(LiveTeacher(teacher), student, {.temperature = 3});
    REQUIRE(distiller.ok());
    return (*distiller)->Forward(MaskedBatch(), kScale).total;
  };
  const double expected = loss().item<double>();
  teacher->to(torch::kBFloat16);
  student->to(torch::kBFloat16);
  const Tensor narrow = loss();
  CHECK(narrow.item<double>() == Approx(expected).epsilon(0.02));
  narrow.backward();
  for (const auto& parameter : student->named_parameters()) {
    INFO(parameter.key());
    CHECK(parameter.value().grad().scalar_type() == torch::kBFloat16);
    CHECK(torch::isfinite(parameter.value().grad()).all().item<bool>());
  }
}

TEST_CASE("what has no weight in a masked distiller's loss is computed in evaluations alone") {
  const auto teacher = TinyEncoder("3", 1), student = TinyEncoder("2", 2);
  const auto sums = [&](const MaskedDistillerOptions& options) {
    const auto distiller = MaskedDistillation::Create(LiveTeacher(teacher), student, options);
    REQUIRE(distiller.ok());
    return (*distiller)->Forward(MaskedBatch(), {});
  };
  CHECK(sums({.kl_weight = 0}).Find("kl") == nullptr);
  CHECK(sums({.kl_weight = 0}).Find("cosine")->sum.item<double>() > 0);
  const double of_words = sums({}).Find("mlm")->sum.item<double>();
  // A teacher of NaN is not asked.
  const torch::NoGradGuard guard;
  for (torch::Tensor& weight : teacher->parameters()) weight.fill_(NAN);
  {
    const torch::AutoGradMode trains(true);
    CHECK(sums({.kl_weight = 0, .cosine_weight = 0}).Find("mlm")->sum.item<double>() == Approx(of_words));
  }
  CHECK(std::isnan(sums({.kl_weight = 0, .cosine_weight = 0}).Find("kl")->sum.item<double>()));
}

TEST_CASE("without a teacher a masked distiller is masked language modelling, with no other loss") {
  const auto student = TinyEncoder("2", 2);
  const MaskedDistillerOptions options{.kl_weight = 0, .mlm_weight = 2, .cosine_weight = 0, .chunk_tokens = 2};
  const auto alone = MaskedDistillation::Create(nullptr, student, options);
  INFO(alone.status());
  REQUIRE(alone.ok());
  REQUIRE((*alone)->LossTerms().size() == 1);
  CHECK((*alone)->LossTerms()[0].name == "mlm");
  CHECK((*alone)->Counts(MaskedBatch()) == std::vector<int64_t>{3});
  const Losses losses = (*alone)->Forward(MaskedBatch(), {.factors = {2}});
  REQUIRE(losses.terms.size() == 1);
  CHECK(losses.Find("mlm")->count == 3);
  losses.total.backward();
  const auto parameters = student->named_parameters();
  std::vector<Tensor> gradients;
  for (const auto& parameter : parameters) {
    gradients.push_back(parameter.value().grad().clone());
    Tensor(parameter.value()).mutable_grad().reset();
  }
  // Cross-entropy of the masked words, in torch's own operations.
  const std::vector<std::vector<int64_t>> rows = {{5, 3, 7, 3, 9, 11}, {13, 3, 17, 19}};
  const std::vector<std::vector<int64_t>> labels = {{-100, 23, -100, 29, -100, -100}, {-100, 31, -100, -100}};
  Tensor expected = torch::zeros({});
  for (size_t i = 0; i < rows.size(); ++i) {
    expected = expected + 2 * F::cross_entropy(RowOf(*student, rows[i]).logits, torch::tensor(labels[i], torch::kInt64),
                                               F::CrossEntropyFuncOptions().reduction(torch::kSum));
  }
  CHECK(losses.total.item<double>() == Approx(expected.item<double>()).epsilon(1e-5));
  expected.backward();
  for (size_t i = 0; i < gradients.size(); ++i) {
    INFO(parameters[i].key());
    const Tensor& wanted = parameters[i].value().grad();
    CHECK((gradients[i] - wanted).abs().max().item<double>() < 1e-4 * std::max(1.0, wanted.abs().max().item<double>()));
  }
  for (const MaskedDistillerOptions& wants : {MaskedDistillerOptions{.kl_weight = 1, .cosine_weight = 0},
                                              MaskedDistillerOptions{.kl_weight = 0, .cosine_weight = 1}}) {
    CHECK(absl::StrContains(MaskedDistillation::Create(nullptr, student, wants).status().message(),
                            "but there is no teacher: set both to 0"));
  }
}

TEST_CASE("a masked distiller's evaluation has the perplexity of the masked words, and a loss whatever weighs 0") {
  const auto summary = [](const MaskedDistillerOptions& options, const MetricValues& means) {
    return (*MaskedDistillation::Create(LiveTeacher(TinyEncoder("1", 1)), TinyEncoder("1", 2), options))
        ->Summarize(means, {})
        .value();
  };
  const MetricValues all = summary({}, {{"kl", 0.5}, {"mlm", 2}, {"cosine", 0.25}});
  CHECK(all.at("perplexity") == Approx(std::exp(2.0)));
  CHECK(all.at("loss") == Approx(5 * 0.5 + 2 * 2 + 0.25));
  CHECK(summary({.cosine_weight = 0}, {{"kl", 0.5}, {"mlm", 2}}).at("loss") == Approx(5 * 0.5 + 2 * 2));
  CHECK(summary({}, {}).count("perplexity") == 0);
}

TEST_CASE("a masked distiller's weights go by the names of libdistill, of transformers and of the guide") {
  for (const std::vector<const char*>& names : {std::vector<const char*>{"kl_weight", "mlm_weight", "cosine_weight"},
                                                {"alpha", "beta", "gamma"},
                                                {"alpha_ce", "alpha_mlm", "alpha_cos"}}) {
    MaskedDistillerOptions options;
    const Description description = DescriptionOf(options);
    for (const char* name : names) {
      const bool is_known =
          std::any_of(description.fields().begin(), description.fields().end(), [&](const FieldDescription& field) {
            return field.name == name || std::any_of(field.aliases.begin(), field.aliases.end(),
                                                     [&](const FieldAlias& alias) { return alias.name == name; });
          });
      INFO(name);
      CHECK(is_known);
    }
  }
}

TEST_CASE("a masked distiller's options are refused by their names") {
  const auto refusal = [](const MaskedDistillerOptions& options, const std::string& width = "24") {
    return std::string(MaskedDistillation::Create(LiveTeacher(TinyEncoder("1", 1)), TinyEncoder("1", 2, width), options)
                           .status()
                           .message());
  };
  CHECK(absl::StrContains(refusal({.kl_weight = -1}), "kl_weight: must be at least 0, not -1"));
  CHECK(absl::StrContains(refusal({.kl_weight = 0, .mlm_weight = 0}), "kl_weight and mlm_weight"));
  CHECK(absl::StrContains(refusal({.temperature = 0}), "temperature: must be at least 0.01, not 0"));
  CHECK(absl::StrContains(refusal({}, "16"), "states have 24 numbers, the student's 16"));
  CHECK(refusal({.cosine_weight = 0}, "16").empty());
}

}  // namespace
}  // namespace distill
