// A teacher that gives logits, or the logits of its likeliest tokens, beside one that gives states and a head.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/loss/compare_losses.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

using testing::CheckSame;
using testing::Error;
using testing::Evaluate;
using testing::InputShape;
using testing::MakeInputs;
using testing::Result;

struct Type {
  torch::Dtype dtype;
  double tolerance;
};
const Type kTypes[] = {
    {torch::kFloat32, 1e-5}, {torch::kFloat64, 1e-9}, {torch::kBFloat16, 2e-2}, {torch::kFloat16, 3e-3}};

// Its logits, as the head makes them, in the type of its weights.
DistillationInputs WithLogits(const DistillationInputs& inputs) {
  DistillationInputs given = inputs;
  Tensor logits = inputs.teacher_hidden.matmul(inputs.teacher_weight.t());
  if (inputs.teacher_bias.defined()) logits = logits + inputs.teacher_bias;
  logits = logits * inputs.teacher_logits.scale;
  const double softcap = inputs.teacher_logits.softcap;
  given.teacher_values = softcap > 0 ? softcap * torch::tanh(logits / softcap) : logits;
  given.teacher_hidden = given.teacher_weight = given.teacher_bias = Tensor();
  given.teacher_logits = {};
  return given;
}

DistillationInputs WithTopK(const DistillationInputs& inputs, int64_t k) {
  DistillationInputs given = WithLogits(inputs);
  std::tie(given.teacher_values, given.teacher_ids) = given.teacher_values.topk(k, 1);
  return given;
}

TEST_CASE("a teacher's logits give what its states and head give, whatever shapes and options") {
  const InputShape shapes[] = {
      {33, 16, 24, 128, 128, true}, {20, 16, 16, 1160, 1051}, {7, 8, 8, 151, 160}, {1, 4, 4, 1, 1}};
  int64_t turn = 0;
  for (const torch::Device& device : TestDevices()) {
    for (const auto& [dtype, tolerance] : kTypes) {
      for (const InputShape& shape : shapes) {
        for (const double beta : {0.0, 0.3, 1.0}) {
          for (const bool cuts : {false, true}) {
            DistillationInputs states = MakeInputs(shape, dtype, device, 0.5);
            states.teacher_logits = {.scale = turn % 3 == 0 ? 0.5 : 1.0, .softcap = turn % 4 == 0 ? 3.0 : 0.0};
            const int64_t rows = std::min(shape.student_rows, shape.teacher_rows);
            const int64_t vocabulary = cuts && rows > 9 ? rows - 9 : 0;
            if (vocabulary > 0) states.labels = states.labels.remainder(vocabulary);
            const DistillationOptions options{.temperature = 1.0 + static_cast<double>(turn % 3),
                                              .alpha = turn % 5 == 0 ? 1.0 : 0.4,
                                              .beta = beta,
                                              .chunk_tokens = 1 + turn % 9,
                                              .vocabulary = vocabulary};
            INFO(device << ' ' << dtype << ", " << shape.student_rows << " and " << shape.teacher_rows << " rows, beta "
                        << beta << ", vocabulary " << vocabulary << ", turn " << turn);
            const DistillationInputs logits = WithLogits(states);
            CheckSame(logits, options, tolerance);
            const Result found = Evaluate(DistillationLoss, logits, options);
            const Result expected = Evaluate(DistillationLoss, states, options);
            CHECK(Error(found.sums.divergence, expected.sums.divergence) < tolerance);
            for (size_t i = 0; i < found.gradients.size(); ++i) {
              CHECK(Error(found.gradients[i], expected.gradients[i]) < tolerance);
            }
            ++turn;
          }
        }
      }
    }
  }
}

// Where a token's first id lies behind the vocabulary that takes part, it becomes 0, which no other then is.
void KeepFirst(Tensor& ids, int64_t vocabulary) {
  const Tensor is_behind = ids.narrow(1, 0, 1).ge(vocabulary);
  ids.masked_fill_(ids.eq(0) & is_behind, -1);
  ids.narrow(1, 0, 1).masked_fill_(is_behind, 0);
}

// Some of the ids are none, or lie behind the vocabulary that takes part.
TEST_CASE("top-k values give what the reference gives, whatever shapes and options") {
  int64_t turn = 0;
  for (const torch::Device& device : TestDevices()) {
    for (const auto& [dtype, tolerance] : kTypes) {
      for (const int64_t tokens : {1, 9, 33}) {
        for (const int64_t vocabulary : {2, 17, 1025, 3001}) {
          for (const int64_t k : {int64_t{1}, int64_t{8}, int64_t{128}, vocabulary}) {
            if (k > vocabulary) continue;
            const int64_t cut = turn % 2 == 1 && vocabulary > 16 ? vocabulary - 5 : 0;
            DistillationInputs inputs = WithTopK(
                MakeInputs({tokens, 16, 8, vocabulary + turn % 3, vocabulary, turn % 2 == 0}, dtype, device, 0.5), k);
            if (cut > 0) inputs.labels = inputs.labels.remainder(cut);
            if (turn % 3 == 0) inputs.labels.narrow(0, 0, (tokens + 1) / 2).fill_(-100);
            if (cut > 0) KeepFirst(inputs.teacher_ids, cut);
            if (k > 4) inputs.teacher_ids.narrow(1, k - 2, 2).fill_(-1);
            if (k > 4) inputs.teacher_values.select(1, 2).fill_(-INFINITY);
            const DistillationOptions options{.temperature = 0.5 + static_cast<double>(turn % 4),
                                              .alpha = turn % 5 == 0 ? 1.0 : 0.25 * static_cast<double>(turn % 4),
                                              .chunk_tokens = 1 + turn % 10,
                                              .vocabulary = cut > 0 ? cut : vocabulary,
                                              .gradient_scale = dtype == torch::kFloat16 ? 256.0 : 1.0};
            INFO(device << ' ' << dtype << ", " << tokens << " tokens, " << k << " of " << vocabulary << ", cut to "
                        << cut << ", turn " << turn);
            CheckSame(inputs, options, tolerance);
            ++turn;
          }
        }
      }
    }
  }
}

TEST_CASE("all of a teacher's tokens, named in any order, are its logits, to the bit") {
  for (const torch::Device& device : TestDevices()) {
    for (const auto& [dtype, tolerance] : kTypes) {
      const DistillationInputs logits = WithLogits(MakeInputs({21, 16, 24, 1300, 1300, true}, dtype, device, 0.5));
      DistillationInputs named = logits;
      named.teacher_ids = torch::rand(logits.teacher_values.sizes(), device).argsort(/*dim=*/1, /*descending=*/false);
      named.teacher_values = logits.teacher_values.gather(1, named.teacher_ids);
      for (const double temperature : {1.0, 2.0, 3.0}) {
        INFO(device << ' ' << dtype << ", T " << temperature);
        const DistillationOptions options{.temperature = temperature, .chunk_tokens = 8};
        const Result found = Evaluate(DistillationLoss, named, options);
        const Result expected = Evaluate(DistillationLoss, logits, options);
        CHECK(torch::equal(found.sums.loss, expected.sums.loss));
        for (size_t i = 0; i < found.gradients.size(); ++i) {
          CHECK(torch::equal(found.gradients[i], expected.gradients[i]));
        }
      }
    }
  }
}

// The formula of docs/losses.md for one token, by hand: p = (3/4, 1/4), q = (1/2, 1/4, 1/8, 1/8).
TEST_CASE("the teacher's share of what it does not name is 0, the student's is not") {
  const Tensor student = torch::tensor({0.5, 0.25, 0.125, 0.125}, torch::kFloat64).log();
  DistillationInputs inputs;
  inputs.student_hidden = torch::ones({1, 1}, torch::kFloat64);
  inputs.student_weight = student.unsqueeze(1).clone();
  inputs.labels = torch::tensor({0}, torch::kInt64);
  inputs.teacher_values = torch::tensor({{0.6, 0.2}}, torch::kFloat64).log();
  inputs.teacher_ids = torch::tensor({{1, 3}}, torch::kInt64);
  const Result found = Evaluate(DistillationLoss, inputs, {.temperature = 1, .alpha = 1});
  const double expected = 0.75 * std::log(0.75 / 0.25) + 0.25 * std::log(0.25 / 0.125);
  CHECK(found.sums.divergence.item<double>() == Approx(expected).epsilon(1e-12));
  const Tensor gradient = torch::tensor({0.5, 0.25 - 0.75, 0.125, 0.125 - 0.25}, torch::kFloat64).unsqueeze(1);
  CHECK(torch::allclose(found.gradients[1], gradient, 1e-12, 1e-12));
}

TEST_CASE("log-probabilities are as good as logits") {
  DistillationInputs inputs = WithTopK(MakeInputs({12, 8, 8, 400, 400}, torch::kFloat32, torch::kCPU), 32);
  const DistillationOptions options{.temperature = 3, .chunk_tokens = 5};
  const Result of_logits = Evaluate(DistillationLoss, inputs, options);
  inputs.teacher_values = inputs.teacher_values - 40;
  const Result shifted = Evaluate(DistillationLoss, inputs, options);
  CHECK(Error(shifted.sums.divergence, of_logits.sums.divergence) < 1e-5);
  CHECK(Error(shifted.gradients[1], of_logits.gradients[1]) < 1e-5);
}

// As a server answers: of the k likeliest, at temperature 1.
DistillationInputs WithLogProbabilities(const DistillationInputs& inputs, int64_t k) {
  DistillationInputs given = WithLogits(inputs);
  const Tensor wide = given.teacher_values.to(at::promote_types(given.teacher_values.scalar_type(), torch::kFloat32));
  std::tie(given.teacher_values, given.teacher_ids) = torch::log_softmax(wide, 1).topk(k, 1);
  return given;
}

TEST_CASE("top-k log-probabilities have the tail that all logits have") {
  for (const torch::Device& device : TestDevices()) {
    for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
      const DistillationInputs inputs = MakeInputs({13, 16, 24, 1300, 1300, true}, dtype, device, 0.5);
      for (const int64_t k : {1, 7, 64}) {
        const DistillationOptions options{
            .temperature = 1, .alpha = 0.8, .divergence = Divergence::kTopKKl, .top_k_logits = k, .chunk_tokens = 5};
        const Result expected = Evaluate(DistillationLoss, WithLogits(inputs), options);
        for (const int64_t given : {k, int64_t{64}}) {  // of which the loss takes k
          INFO(device << ' ' << dtype << ", " << k << " of " << given);
          const Result found = Evaluate(DistillationLoss, WithLogProbabilities(inputs, given), options);
          CHECK(Error(found.sums.divergence, expected.sums.divergence) < 1e-5);
          for (size_t i = 0; i < found.gradients.size(); ++i) {
            CHECK(Error(found.gradients[i], expected.gradients[i]) < 2e-5);
          }
        }
      }
    }
  }
}

TEST_CASE("top-k log-probabilities with a tail give what the reference gives, whatever shapes and options") {
  int64_t turn = 0;
  for (const torch::Device& device : TestDevices()) {
    for (const auto& [dtype, tolerance] : kTypes) {
      for (const int64_t vocabulary : {2, 17, 1025}) {
        for (const int64_t k : {int64_t{1}, int64_t{8}, int64_t{128}, vocabulary}) {
          if (k > vocabulary) continue;
          const int64_t cut = turn % 2 == 1 && vocabulary > 16 ? vocabulary - 5 : 0;
          DistillationInputs inputs = WithLogProbabilities(
              MakeInputs({9, 16, 8, vocabulary + turn % 3, vocabulary, turn % 2 == 0}, dtype, device, 0.5), k);
          if (cut > 0) inputs.labels = inputs.labels.remainder(cut);
          if (turn % 3 == 0) inputs.labels.narrow(0, 0, 5).fill_(-100);
          if (cut > 0) KeepFirst(inputs.teacher_ids, cut);
          if (k > 4) inputs.teacher_ids.narrow(1, k - 2, 2).fill_(-1);
          if (k > 4) inputs.teacher_values.narrow(1, k - 2, 2).fill_(0);  // padding, which is no probability
          if (k > 4) inputs.teacher_values.select(1, 2).fill_(-INFINITY);
          DistillationOptions options{.temperature = 1,
                                      .alpha = turn % 5 == 0 ? 1.0 : 0.25 * static_cast<double>(turn % 4),
                                      .divergence = Divergence::kTopKKl,
                                      .chunk_tokens = 1 + turn % 10,
                                      .vocabulary = cut > 0 ? cut : vocabulary,
                                      .gradient_scale = dtype == torch::kFloat16 ? 256.0 : 1.0};
          if (turn % 3 == 1) options.top_k_logits = 5;
          INFO(device << ' ' << dtype << ", " << k << " of " << vocabulary << ", cut to " << cut << ", turn " << turn);
          CheckSame(inputs, options, dtype == torch::kFloat64 ? 1e-6 : tolerance);
          ++turn;
        }
      }
    }
  }
}

// The formula of docs/losses.md for one token, by hand: p = (1/2, 1/4) and 1/4 for the rest, q = (1/2, 1/4, 1/8, 1/8).
TEST_CASE("what the teacher does not name is one event, which has the rest of both models") {
  DistillationInputs inputs;
  inputs.student_hidden = torch::ones({1, 1}, torch::kFloat64);
  inputs.student_weight = torch::tensor({0.5, 0.25, 0.125, 0.125}, torch::kFloat64).log().unsqueeze(1);
  inputs.labels = torch::tensor({0}, torch::kInt64);
  inputs.teacher_values = torch::tensor({{0.5, 0.25}}, torch::kFloat64).log();
  inputs.teacher_ids = torch::tensor({{1, 3}}, torch::kInt64);
  const Result found =
      Evaluate(DistillationLoss, inputs, {.temperature = 1, .alpha = 1, .divergence = Divergence::kTopKKl});
  const double expected = 0.5 * std::log(0.5 / 0.25) + 0.25 * std::log(0.25 / 0.125) + 0.25 * std::log(0.25 / 0.625);
  CHECK(found.sums.divergence.item<double>() == Approx(expected).epsilon(1e-12));
  const double left = 1 - 0.25 / 0.625;
  const Tensor gradient =
      torch::tensor({0.5 * left, 0.25 - 0.5, 0.125 * left, 0.125 - 0.25}, torch::kFloat64).unsqueeze(1);
  CHECK(torch::allclose(found.gradients[1], gradient, 1e-12, 1e-12));
}

TEST_CASE("values that are no number, and tokens of which nothing is left, are not trained on") {
  for (const float bad : {NAN, INFINITY}) {
    DistillationInputs inputs = WithTopK(MakeInputs({4, 4, 4, 40, 40}, torch::kFloat32, torch::kCPU), 5);
    inputs.teacher_values[2][1] = bad;
    CHECK_FALSE(std::isfinite(DistillationLoss(inputs, {}).loss.item<float>()));
    inputs = WithLogits(MakeInputs({4, 4, 4, 40, 40}, torch::kFloat32, torch::kCPU));
    inputs.teacher_values[2][1] = bad;
    CHECK_FALSE(std::isfinite(DistillationLoss(inputs, {}).loss.item<float>()));
  }
  for (const torch::Device& device : TestDevices()) {
    DistillationInputs inputs = WithTopK(MakeInputs({4, 4, 4, 40, 40}, torch::kFloat32, device), 5);
    inputs.teacher_values[3].fill_(-INFINITY);
    CHECK_FALSE(std::isfinite(DistillationLoss(inputs, {}).loss.item<float>()));
    inputs.teacher_values[3].fill_(1);
    inputs.teacher_ids[3].fill_(-1);
    if (device.is_cpu()) {
      CHECK_THROWS_WITH(DistillationLoss(inputs, {}), Catch::Contains("token 3 has no id of a vocabulary of 40"));
    } else {
      CHECK_FALSE(std::isfinite(DistillationLoss(inputs, {}).loss.item<float>()));
    }
  }
}

TEST_CASE("values that do not fit are refused with what to do") {
  const DistillationInputs good = WithTopK(MakeInputs({5, 4, 6, 9, 9}, torch::kFloat32, torch::kCPU), 3);
  const auto refuses = [](const DistillationInputs& inputs, const DistillationOptions& options,
                          const std::string& part) {
    for (const auto loss : {DistillationLoss, ReferenceDistillationLoss}) {
      CHECK_THROWS_AS(loss(inputs, options), c10::ValueError);
      CHECK_THROWS_WITH(loss(inputs, options), Catch::Contains(part));
    }
  };
  for (const double beta : {0.3, 1.0}) refuses(good, {.beta = beta}, "set beta to 0, or take a teacher that gives all");
  for (const Divergence divergence : {Divergence::kReverseKl, Divergence::kSkewedKl, Divergence::kTotalVariation,
                                      Divergence::kMse, Divergence::kSkewedReverseKl}) {
    refuses(good, {.divergence = divergence}, "set divergence to kl or topk_kl, or take a teacher that gives all");
  }
  refuses(good, {.temperature = 2, .divergence = Divergence::kTopKKl}, "set temperature to 1");
  DistillationInputs bad = good;
  bad.teacher_values = torch::full({5, 3}, -2.0);
  bad.teacher_values[3].fill_(1);
  refuses(bad, {.temperature = 1, .divergence = Divergence::kTopKKl},
          "top-k values of token 3 add up to a probability of 8.15");
  bad = good;
  bad.teacher_ids = good.teacher_ids.to(torch::kInt32);
  refuses(bad, {}, "teacher_ids must be int64 [5, 3]");
  bad = good;
  bad.teacher_values = good.teacher_values.narrow(0, 0, 4);
  refuses(bad, {}, "teacher_values has 4 tokens, labels have 5");
  bad = good;
  bad.teacher_hidden = torch::zeros({5, 6});
  refuses(bad, {}, "give one of them");
  bad = good;
  bad.teacher_values = Tensor();
  refuses(bad, {}, "teacher_ids without teacher_values");
}

}  // namespace
}  // namespace distill
