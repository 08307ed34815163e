#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "libdistill/loss/distillation_loss.h"
#include "libdistill/loss/loss_memory.h"
#include "tests/loss/compare_losses.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

using testing::CheckSame;
using testing::Error;
using testing::Evaluate;
using testing::InFloat64;
using testing::MakeInputs;
using testing::NameOf;
using testing::Result;

// One of each divergence.
std::vector<DistillationOptions> OfEach() {
  std::vector<DistillationOptions> all = {{.beta = 0}, {.beta = 0.3}, {.beta = 1}};
  for (const Divergence divergence :
       {Divergence::kSkewedKl, Divergence::kSkewedReverseKl, Divergence::kTotalVariation, Divergence::kMse}) {
    all.push_back({.divergence = divergence});
  }
  all.push_back({.divergence = Divergence::kTopKKl, .top_k_logits = 3});
  return all;
}

TEST_CASE("teacher and student may differ in type") {
  DistillationInputs inputs = MakeInputs({9, 16, 24, 300, 300, true}, torch::kFloat32, torch::kCPU, 0.5);
  const Result expected = Evaluate(DistillationLoss, inputs, {.chunk_tokens = 4});
  for (Tensor* tensor : {&inputs.teacher_hidden, &inputs.teacher_weight, &inputs.teacher_bias}) {
    *tensor = tensor->to(torch::kBFloat16);
  }
  CheckSame(inputs, {.chunk_tokens = 4}, 5e-3);
  const Result actual = Evaluate(DistillationLoss, inputs, {.chunk_tokens = 4});
  CHECK(RelativeError(actual.sums.divergence, expected.sums.divergence) < 2e-2);
}

TEST_CASE("a logit that is not a number makes the loss so") {
  for (const DistillationOptions& options : OfEach()) {
    for (const float bad : {NAN, INFINITY}) {
      DistillationInputs inputs = MakeInputs({4, 4, 4, 40, 40}, torch::kFloat32, torch::kCPU);
      inputs.student_hidden[2][1] = bad;
      INFO(NameOf(options));
      CHECK_FALSE(std::isfinite(DistillationLoss(inputs, options).loss.item<float>()));
      inputs = MakeInputs({4, 4, 4, 40, 40}, torch::kFloat32, torch::kCPU);
      inputs.teacher_hidden[2][1] = bad;
      CHECK_FALSE(std::isfinite(DistillationLoss(inputs, options).loss.item<float>()));
    }
  }
}

TEST_CASE("a GPU computes the sums and gradients of the CPU") {
  const DistillationInputs inputs = MakeInputs({40, 24, 32, 199, 211, true}, torch::kFloat32, torch::kCPU, 0.5);
  DistillationOptions options = GENERATE(from_range(OfEach()));
  options.chunk_tokens = 16;
  const Result expected = Evaluate(DistillationLoss, inputs, options);
  for (const torch::Device& device : TestDevices()) {
    if (device.is_cpu()) continue;
    INFO(NameOf(options));
    DistillationInputs moved = inputs;
    for (Tensor* tensor : {&moved.student_hidden, &moved.student_weight, &moved.student_bias, &moved.teacher_hidden,
                           &moved.teacher_weight, &moved.teacher_bias, &moved.labels}) {
      *tensor = tensor->to(device);
    }
    const Result actual = Evaluate(DistillationLoss, moved, options);
    CHECK(RelativeError(actual.sums.loss, expected.sums.loss) < 1e-4);
    CHECK(RelativeError(actual.sums.divergence, expected.sums.divergence) < 1e-4);
    CHECK(RelativeError(actual.sums.ce, expected.sums.ce) < 1e-4);
    for (size_t i = 0; i < expected.gradients.size(); ++i) {
      CHECK(RelativeError(actual.gradients[i], expected.gradients[i]) < 1e-4);
    }
  }
}

TEST_CASE("the gradient's scale keeps in float16 what is too small for it, and changes no other bit") {
  const double scale = 1 << 20;
  for (const torch::Device& device : TestDevices()) {
    DistillationInputs inputs = MakeInputs({20, 16, 16, 101, 101}, torch::kFloat16, device, 0.5);
    inputs.student_logits.scale = 1e-9;  // and the gradient of the products with it
    const Result lost = Evaluate(DistillationLoss, inputs, {.chunk_tokens = 8}, scale);
    const Result kept = Evaluate(DistillationLoss, inputs, {.chunk_tokens = 8, .gradient_scale = scale}, scale);
    const Result expected = Evaluate(ReferenceDistillationLoss, InFloat64(inputs), {}, scale);
    for (size_t i = 0; i < expected.gradients.size(); ++i) {
      CHECK(lost.gradients[i].abs().max().item<double>() == 0);
      CHECK(Error(kept.gradients[i], expected.gradients[i]) < 3e-3);
    }
    const DistillationInputs wide = MakeInputs({20, 16, 16, 101, 101, true}, torch::kFloat32, device, 0.5);
    const Result plain = Evaluate(DistillationLoss, wide, {.chunk_tokens = 8});
    const Result scaled = Evaluate(DistillationLoss, wide, {.chunk_tokens = 8, .gradient_scale = scale});
    for (size_t i = 0; i < plain.gradients.size(); ++i) {
      CHECK(Error(scaled.gradients[i], plain.gradients[i]) < (device.is_cpu() ? 1e-30 : 1e-6));
    }
  }
}

TEST_CASE("a vocabulary below both heads leaves the other rows without gradient") {
  const DistillationInputs inputs = MakeInputs({12, 8, 8, 40, 48, true}, torch::kFloat32, torch::kCPU);
  DistillationInputs small = inputs;
  small.labels = inputs.labels.remainder(31);
  const DistillationOptions options{.chunk_tokens = 5, .vocabulary = 31};
  CheckSame(small, options, 1e-5);
  const Result result = Evaluate(DistillationLoss, small, options);
  CHECK(result.gradients[1].narrow(0, 31, 9).abs().max().item<float>() == 0.0f);
  CHECK(result.gradients[2].narrow(0, 31, 9).abs().max().item<float>() == 0.0f);
}

TEST_CASE("the gradient of a narrow head that is made slice by slice is right in each of them") {
  constexpr int64_t kHidden = 1024, kVocabulary = 2500;
  const int64_t slice = SliceRows(kHidden, 2);
  REQUIRE(2 * slice < kVocabulary);  // three, of which the last one is shorter
  for (const torch::Dtype dtype : {torch::kBFloat16, torch::kFloat16}) {
    const DistillationInputs inputs = MakeInputs({9, kHidden, 16, kVocabulary, kVocabulary}, dtype, torch::kCPU, 0.1);
    for (const int64_t chunk : {4, 16}) {  // later chunks are added to the first one
      const DistillationOptions options{.chunk_tokens = chunk};
      const Tensor actual = Evaluate(DistillationLoss, inputs, options).gradients[1].to(torch::kFloat32);
      const Tensor expected =
          Evaluate(ReferenceDistillationLoss, InFloat64(inputs), options).gradients[1].to(torch::kFloat32);
      for (int64_t first = 0; first < kVocabulary; first += slice / 2) {
        const int64_t count = std::min(slice / 2, kVocabulary - first);
        INFO(dtype << ", chunks of " << chunk << ", rows from " << first);
        CHECK(RelativeError(actual.narrow(0, first, count), expected.narrow(0, first, count)) < 2e-2);
      }
    }
  }
}

TEST_CASE("the head's gradient is made in borrowed memory, whatever it holds") {
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64, torch::kBFloat16}) {
    for (const int64_t tokens : {0, 12}) {
      DistillationInputs inputs = MakeInputs({tokens, 8, 8, 40, 48, true}, dtype, torch::kCPU);
      inputs.labels = inputs.labels.remainder(31);
      const DistillationOptions options{.chunk_tokens = 5, .vocabulary = 31};
      const Result own = Evaluate(DistillationLoss, inputs, options);
      const torch::Dtype wide = at::promote_types(dtype, torch::kFloat32);
      inputs.student_weight_gradient = torch::full({40, 8}, NAN, wide);
      const Result borrowed = Evaluate(DistillationLoss, inputs, options);
      INFO(dtype << ", " << tokens << " tokens");
      for (size_t i = 0; i < own.gradients.size(); ++i) CHECK(torch::equal(borrowed.gradients[i], own.gradients[i]));
      CHECK(torch::equal(inputs.student_weight_gradient.to(dtype), own.gradients[1]));
      inputs.student_weight_gradient = torch::full({40, 8}, 1, wide).t();
      CHECK_THROWS_AS(DistillationLoss(inputs, options), c10::Error);
    }
  }
}

TEST_CASE("the head's gradient is added to a sum in borrowed memory, by a backward pass of the scale that was said") {
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64, torch::kBFloat16}) {
    DistillationInputs inputs = MakeInputs({12, 8, 8, 40, 48, true}, dtype, torch::kCPU);
    inputs.labels = inputs.labels.remainder(31);
    const DistillationOptions options{.chunk_tokens = 5, .vocabulary = 31, .gradient_scale = 4};
    const Result own = Evaluate(DistillationLoss, inputs, options, /*incoming=*/4);
    const torch::Dtype wide = at::promote_types(dtype, torch::kFloat32);
    const Tensor before = torch::randn({40, 8}, torch::TensorOptions(wide));
    inputs.student_weight_gradient = before.clone();
    inputs.adds_student_weight_gradient = true;
    CHECK_THROWS_AS(DistillationLoss(inputs, options), c10::Error);  // nobody takes it
    Tensor given;
    inputs.take_student_weight_gradient = [&](const Tensor& sum) { given = sum; };
    const Result added = Evaluate(DistillationLoss, inputs, options, 4);
    INFO(dtype);
    CHECK(given.data_ptr() == inputs.student_weight_gradient.data_ptr());
    CHECK_FALSE(added.gradients[1].defined());
    CHECK(RelativeError(given - before, own.gradients[1].to(wide)) < (dtype == torch::kBFloat16 ? 2e-2 : 1e-5));
    CHECK(torch::equal(given.narrow(0, 31, 9), before.narrow(0, 31, 9)));
    CHECK(torch::equal(added.gradients[0], own.gradients[0]));
    CHECK_THROWS_AS(Evaluate(DistillationLoss, inputs, options, 3), c10::Error);
  }
}

TEST_CASE("cross-entropy alone needs no teacher") {
  DistillationInputs inputs = MakeInputs({12, 8, 8, 40, 40}, torch::kFloat32, torch::kCPU);
  const Result with = Evaluate(DistillationLoss, inputs, {.alpha = 0.0});
  inputs.teacher_hidden = inputs.teacher_weight = Tensor();
  CheckSame(inputs, {.alpha = 0.0, .chunk_tokens = 5}, 1e-5);
  const Result without = Evaluate(DistillationLoss, inputs, {.alpha = 0.0});
  CHECK(without.sums.divergence.item<float>() == 0.0f);
  CHECK(with.sums.divergence.item<float>() > 0.0f);
  CHECK(RelativeError(without.gradients[1], with.gradients[1]) < 1e-6);
  CHECK_THROWS_AS(DistillationLoss(inputs, {.alpha = 0.5}), c10::Error);
}

TEST_CASE("no tokens give zero, and gradients of zero") {
  for (const torch::Device& device : TestDevices()) {
    const DistillationInputs inputs = MakeInputs({0, 8, 8, 40, 40, true}, torch::kFloat32, device);
    const Result result = Evaluate(DistillationLoss, inputs, {});
    CHECK(result.sums.loss.item<float>() == 0.0f);
    CHECK(result.sums.divergence.item<float>() == 0.0f);
    CHECK(result.gradients[0].sizes() == inputs.student_hidden.sizes());
    CHECK(result.gradients[1].abs().max().item<float>() == 0.0f);
    CHECK(result.gradients[2].abs().max().item<float>() == 0.0f);
  }
}

TEST_CASE("logits of plus and minus ten thousand stay finite and right") {
  DistillationInputs inputs = MakeInputs({6, 4, 4, 9, 9}, torch::kFloat32, torch::kCPU);
  inputs.student_bias = torch::tensor({1e4f, -1e4f, 0.f, 1e4f, -1e4f, 5.f, 1e4f, 0.f, -1e4f});
  inputs.teacher_bias = inputs.student_bias.flip(0);
  for (const DistillationOptions& options : OfEach()) {
    INFO(NameOf(options));
    CheckSame(inputs, options, 1e-5);
    const Result result = Evaluate(DistillationLoss, inputs, options);
    CHECK(std::isfinite(result.sums.loss.item<float>()));
    for (const Tensor& gradient : result.gradients) CHECK(gradient.isfinite().all().item<bool>());
  }
}

TEST_CASE("a student that equals its teacher has no divergence and no gradient of it") {
  DistillationInputs inputs = MakeInputs({6, 4, 4, 9, 9}, torch::kFloat32, torch::kCPU);
  inputs.teacher_hidden = inputs.student_hidden;
  inputs.teacher_weight = inputs.student_weight;
  for (DistillationOptions options : OfEach()) {
    options.alpha = 1;
    const Result result = Evaluate(DistillationLoss, inputs, options);
    INFO(NameOf(options));
    CHECK(std::abs(result.sums.divergence.item<float>()) < 1e-5f);
    CHECK(result.gradients[1].abs().max().item<float>() < 1e-5f);
  }
}

TEST_CASE("gradients are what finite differences say, T squared included") {
  DistillationInputs inputs = MakeInputs({3, 4, 5, 6, 6, true}, torch::kFloat64, torch::kCPU);
  inputs.student_logits = {.scale = 0.7, .softcap = 5};
  DistillationOptions options = GENERATE(from_range(OfEach()));
  options.temperature = 3.0;
  options.alpha = 0.7;
  options.chunk_tokens = 2;
  INFO(NameOf(options));
  const Result result = Evaluate(DistillationLoss, inputs, options);
  const std::vector<Tensor> values = {inputs.student_hidden, inputs.student_weight, inputs.student_bias};
  constexpr double kStep = 1e-6;
  for (size_t i = 0; i < values.size(); ++i) {
    Tensor flat = values[i].view({-1});  // shares the memory of the inputs
    Tensor numeric = torch::zeros_like(flat);
    for (int64_t j = 0; j < flat.numel(); ++j) {
      const double value = flat[j].item<double>();
      flat[j] = value + kStep;
      const double above = DistillationLoss(inputs, options).loss.item<double>();
      flat[j] = value - kStep;
      const double below = DistillationLoss(inputs, options).loss.item<double>();
      flat[j] = value;
      numeric[j] = (above - below) / (2 * kStep);
    }
    INFO("gradient " << i);
    CHECK(RelativeError(result.gradients[i].view({-1}), numeric) < 1e-7);
  }
}

TEST_CASE("the incoming gradient scales, a second backward adds, and evaluation keeps no graph") {
  DistillationInputs inputs = MakeInputs({5, 4, 4, 9, 9}, torch::kFloat32, torch::kCPU);
  const Result once = Evaluate(DistillationLoss, inputs, {});
  inputs.student_weight.requires_grad_();
  const DistillationSums sums = DistillationLoss(inputs, {});
  (sums.loss * 3).backward({}, /*retain_graph=*/true);
  (sums.loss * 2).backward();
  CHECK(RelativeError(inputs.student_weight.grad(), once.gradients[1] * 5) < 1e-6);
  CHECK_FALSE(inputs.student_hidden.grad().defined());
  const torch::NoGradGuard no_grad;
  const DistillationSums evaluated = DistillationLoss(inputs, {});
  CHECK_FALSE(evaluated.loss.requires_grad());
  CHECK(torch::equal(evaluated.loss, once.sums.loss));
}

TEST_CASE("gradients reach the models that made the hidden states") {
  DistillationInputs inputs = MakeInputs({5, 4, 4, 9, 9}, torch::kFloat32, torch::kCPU);
  const Tensor x = inputs.student_hidden;
  Tensor projection = torch::eye(4).requires_grad_();
  inputs.student_hidden = x.mm(projection);
  inputs.student_weight.requires_grad_();
  DistillationLoss(inputs, {}).loss.backward();
  const Tensor ours = projection.grad().clone();
  projection.mutable_grad().reset();
  inputs.student_hidden = x.mm(projection);
  ReferenceDistillationLoss(inputs, {}).loss.backward();
  CHECK(RelativeError(ours, projection.grad()) < 1e-5);
}

TEST_CASE("shapes and options that do not fit are refused by name") {
  const DistillationInputs good = MakeInputs({5, 4, 6, 9, 9}, torch::kFloat32, torch::kCPU);
  const auto message = [](const DistillationInputs& inputs, const DistillationOptions& options) -> std::string {
    try {
      DistillationLoss(inputs, options);
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "";
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(absl::StrContains(text, part));
  };
  DistillationInputs bad = good;
  bad.student_hidden = torch::zeros({4, 4});
  contains(message(bad, {}), "student_hidden has 4 tokens");
  bad = good;
  bad.teacher_weight = torch::zeros({9, 5});
  contains(message(bad, {}), "teacher_weight [9, 5] differ in H");
  contains(message(good, {.vocabulary = 10}), "heads of 9 rows");
  contains(message(good, {.temperature = 0.0}), "temperature");
  contains(message(good, {.alpha = 1.5}), "alpha");
  contains(message(good, {.chunk_tokens = -1}), "chunk_tokens");
  contains(message(good, {.beta = -0.1}), "beta");
  contains(message(good, {.divergence = Divergence::kJensenShannon}),
           "divergence jensen_shannon needs a beta above 0 and below 1, as 0.5, and beta is 0");
  contains(message(good, {.beta = 0.5, .divergence = Divergence::kMse}),
           "beta: the divergence mse does not use it; it is of jensen_shannon");
  contains(message(good, {.beta = 1, .divergence = Divergence::kForwardKl}), "beta: the divergence kl does not use it");
  contains(message(good, {.skew = 0.2}), "skew: the divergence kl does not use it; it is of skewed_kl and");
  contains(message(good, {.divergence = Divergence::kSkewedKl, .skew = 1.0}), "skew");
  contains(message(good, {.beta = 0.5, .top_k_logits = 3}), "top_k_logits: the divergence jensen_shannon does not");
  contains(message(good, {.divergence = Divergence::kTopKKl, .top_k_logits = 0}), "top_k_logits");
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat64}) {
    bad = MakeInputs({5, 4, 6, 9, 9}, dtype, torch::kCPU);
    bad.labels = torch::tensor({0, 8, 3, 2, -100}, torch::kInt64);
    CHECK(message(bad, {}) == "");
    contains(message(bad, {.vocabulary = 8}), "label 8 at token 1 is no word of a vocabulary of 8");
    bad.labels = torch::tensor({0, 1, 3, 9, -100}, torch::kInt64);
    contains(message(bad, {}), "label 9 at token 3 is no word of a vocabulary of 9");
  }
  bad = good;
  bad.teacher_logits.softcap = -1;
  contains(message(bad, {}), "teacher_logits: a softcap of -1");
}

}  // namespace
}  // namespace distill
