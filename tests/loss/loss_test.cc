#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "libdistill/loss/distillation_loss.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

struct Shape {
  int64_t tokens, student_hidden, teacher_hidden, student_rows, teacher_rows;
  bool has_bias = false;
};

DistillationInputs MakeInputs(const Shape& s, torch::Dtype dtype, torch::Device device, double scale = 1.0) {
  torch::manual_seed(7);
  const auto random = [&](c10::IntArrayRef sizes) { return (torch::randn(sizes) * scale).to(device, dtype); };
  const int64_t vocabulary = std::min(s.student_rows, s.teacher_rows);
  DistillationInputs inputs{.student_hidden = random({s.tokens, s.student_hidden}),
                            .student_weight = random({s.student_rows, s.student_hidden}),
                            .student_bias = {},
                            .teacher_hidden = random({s.tokens, s.teacher_hidden}),
                            .teacher_weight = random({s.teacher_rows, s.teacher_hidden}),
                            .teacher_bias = {},
                            .labels = torch::randint(vocabulary, {s.tokens}, torch::kInt64).to(device)};
  if (s.has_bias) {
    inputs.student_bias = random({s.student_rows});
    inputs.teacher_bias = random({s.teacher_rows});
  }
  return inputs;
}

struct Result {
  DistillationSums sums;
  std::vector<Tensor> gradients;  // hidden, weight, bias where there is one
};

template <typename Loss>
Result Evaluate(Loss loss, const DistillationInputs& inputs, const DistillationOptions& options,
                double incoming = 1.0) {
  DistillationInputs leaves = inputs;
  std::vector<Tensor> wanted;
  for (Tensor* tensor : {&leaves.student_hidden, &leaves.student_weight, &leaves.student_bias}) {
    if (!tensor->defined()) continue;
    *tensor = tensor->detach().clone().requires_grad_();
    wanted.push_back(*tensor);
  }
  Result result{.sums = loss(leaves, options), .gradients = {}};
  result.sums.loss.backward(torch::full_like(result.sums.loss, incoming));
  for (const Tensor& leaf : wanted) result.gradients.push_back(leaf.grad());
  return result;
}

DistillationInputs InFloat64(const DistillationInputs& inputs) {
  DistillationInputs wide = inputs;
  for (Tensor* tensor : {&wide.student_hidden, &wide.student_weight, &wide.student_bias, &wide.teacher_hidden,
                         &wide.teacher_weight, &wide.teacher_bias}) {
    if (tensor->defined()) *tensor = tensor->to(torch::kFloat64);
  }
  return wide;
}

// Where nearly everything cancels, only an absolute error says anything.
double Error(const Tensor& actual, const Tensor& expected) {
  const double largest = expected.numel() > 0 ? expected.abs().max().item<double>() : 0;
  return largest < 1e-6 ? actual.abs().max().item<double>() : RelativeError(actual, expected);
}

// The reference rounds as much as we do: what counts is to be as near to it, or to itself in float64.
void CheckSame(const DistillationInputs& inputs, const DistillationOptions& options, double tolerance) {
  const double incoming = options.gradient_scale;
  const Result ours = Evaluate(DistillationLoss, inputs, options, incoming);
  std::vector<Result> references = {Evaluate(ReferenceDistillationLoss, inputs, options, incoming)};
  if (inputs.student_hidden.scalar_type() != torch::kFloat64) {
    references.push_back(Evaluate(ReferenceDistillationLoss, InFloat64(inputs), options, incoming));
  }
  const auto least_error = [&](auto&& part) {
    double least = INFINITY;
    for (const Result& reference : references) least = std::min(least, Error(part(ours), part(reference)));
    return least;
  };
  CHECK(least_error([](const Result& result) { return result.sums.loss; }) < tolerance);
  CHECK(least_error([](const Result& result) { return result.sums.divergence; }) < tolerance);
  CHECK(least_error([](const Result& result) { return result.sums.ce; }) < tolerance);
  CHECK_FALSE(ours.sums.divergence.requires_grad());
  CHECK_FALSE(ours.sums.ce.requires_grad());
  REQUIRE(ours.gradients.size() == references[0].gradients.size());
  for (size_t i = 0; i < ours.gradients.size(); ++i) {
    INFO("gradient " << i);
    CHECK(ours.gradients[i].scalar_type() == references[0].gradients[i].scalar_type());
    CHECK(least_error([i](const Result& result) { return result.gradients[i]; }) < tolerance);
  }
}

TEST_CASE("chunks give what whole logits give, whatever shapes, chunk sizes and options") {
  const std::vector<Shape> shapes = {{33, 16, 24, 128, 128}, {17, 8, 8, 101, 101, true},
                                     {20, 16, 16, 160, 151}, {20, 16, 16, 151, 160, true},
                                     {1, 4, 4, 7, 7},        {5, 3, 3, 1, 1}};
  for (const torch::Device& device : TestDevices()) {
    for (const Shape& shape : shapes) {
      const DistillationInputs inputs = MakeInputs(shape, torch::kFloat32, device);
      for (const double temperature : {0.5, 1.0, 2.0}) {
        for (const double alpha : {0.0, 0.25, 1.0}) {
          for (const int64_t chunk_tokens : {1, 8, 1000}) {
            INFO(device << ", tokens " << shape.tokens << ", rows " << shape.student_rows << ", T " << temperature
                        << ", alpha " << alpha << ", chunks of " << chunk_tokens);
            CheckSame(inputs, {.temperature = temperature, .alpha = alpha, .chunk_tokens = chunk_tokens}, 1e-5);
          }
        }
      }
    }
  }
}

TEST_CASE("every divergence, with labels or without, gives what the reference gives") {
  const std::vector<LogitScaling> scalings = {{}, {.scale = 0.25}, {.scale = 1.5, .softcap = 4}};
  for (const torch::Device& device : TestDevices()) {
    for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
      for (const double beta : {0.0, 0.1, 0.5, 0.9, 1.0}) {
        for (const double temperature : {1.0, 2.0, 3.0}) {
          for (const LogitScaling& scaling : scalings) {
            DistillationInputs inputs = MakeInputs({9, 16, 24, 1100, 1123, true}, dtype, device, 0.5);
            inputs.student_logits = scaling;
            inputs.teacher_logits = {.scale = 0.5, .softcap = scaling.softcap / 2};
            for (const double alpha : {0.4, 1.0}) {
              INFO(device << ' ' << dtype << ", beta " << beta << ", T " << temperature << ", alpha " << alpha
                          << ", scale " << scaling.scale << ", softcap " << scaling.softcap);
              CheckSame(inputs, {.temperature = temperature, .alpha = alpha, .beta = beta, .chunk_tokens = 4}, 1e-5);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("a token without a label has the divergence alone") {
  for (const torch::Device& device : TestDevices()) {
    for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
      DistillationInputs inputs = MakeInputs({9, 16, 24, 1100, 1123, true}, dtype, device, 0.5);
      for (const int64_t labelled : {3, 0}) {
        inputs.labels.narrow(0, labelled, 9 - labelled).fill_(-100);
        for (const double beta : {0.0, 0.5, 1.0}) {
          for (const double temperature : {1.0, 2.0, 3.0}) {
            for (const double alpha : {0.0, 0.4, 1.0}) {
              INFO(device << ' ' << dtype << ", " << labelled << " labels, beta " << beta << ", T " << temperature
                          << ", alpha " << alpha);
              CheckSame(inputs, {.temperature = temperature, .alpha = alpha, .beta = beta, .chunk_tokens = 4}, 1e-5);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("vocabularies from 1 to 200,000, odd ones among them") {
  for (const int64_t rows : {1, 2, 15, 16, 17, 1023, 1024, 1025, 32000, 151936, 200000, 199999}) {
    for (const double beta : {0.0, 0.5, 1.0}) {
      INFO(rows << " rows, beta " << beta);
      CheckSame(MakeInputs({3, 4, 6, rows, rows + 1}, torch::kFloat32, torch::kCPU), {.beta = beta, .chunk_tokens = 2},
                1e-5);
    }
  }
}

// The axes of the cases above, crossed: each type with each length around blocks, padding of either head, a vocabulary
// below both, softcaps, missing labels and chunk sizes.
TEST_CASE("types, vocabularies, padding, softcaps, temperatures and missing labels together") {
  struct Type {
    torch::Dtype dtype;
    double tolerance;
  };
  const Type types[] = {{torch::kFloat32, 1e-5}, {torch::kBFloat16, 2e-2}, {torch::kFloat16, 3e-3}};
  int64_t turn = 0;  // what is not crossed takes turns
  for (const auto& [dtype, tolerance] : types) {
    for (const int64_t vocabulary : {1, 17, 1025, 2051, 40001}) {
      for (const double beta : {0.0, 0.3, 1.0}) {
        for (const int64_t padded : {0, 3}) {
          for (const double softcap : {0.0, 5.0}) {
            const int64_t of_student = turn / 4 % 2 == 0 ? padded : 0, of_teacher = padded - of_student;
            DistillationInputs inputs =
                MakeInputs({7, 16, 8, vocabulary + of_student, vocabulary + of_teacher, turn / 7 % 2 == 0}, dtype,
                           torch::kCPU, 0.5);
            inputs.student_logits = inputs.teacher_logits = {.scale = softcap > 0 ? 0.5 : 1, .softcap = softcap};
            if (turn / 3 % 2 == 1) inputs.labels.narrow(0, 2, 3).fill_(-100);
            const bool below = turn / 5 % 2 == 1 && vocabulary > 16;
            if (below) inputs.labels = torch::where(inputs.labels >= vocabulary - 5, inputs.labels - 5, inputs.labels);
            const DistillationOptions options{.temperature = 1.0 + static_cast<double>(turn % 3),
                                              .alpha = turn % 5 == 0 ? 1.0 : 0.5,
                                              .beta = beta,
                                              .chunk_tokens = 1 + turn % 7,
                                              .vocabulary = below ? vocabulary - 5 : 0,
                                              .gradient_scale = dtype == torch::kFloat16 ? 1024.0 : 1.0};
            INFO(dtype << ", " << vocabulary << " words, beta " << beta << ", padded by " << of_student << " and "
                       << of_teacher << ", softcap " << softcap << ", turn " << turn);
            CheckSame(inputs, options, tolerance);
            ++turn;
          }
        }
      }
    }
  }
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
  for (const double beta : {0.0, 0.5, 1.0}) {
    for (const float bad : {NAN, INFINITY}) {
      DistillationInputs inputs = MakeInputs({4, 4, 4, 40, 40}, torch::kFloat32, torch::kCPU);
      inputs.student_hidden[2][1] = bad;
      CHECK_FALSE(std::isfinite(DistillationLoss(inputs, {.beta = beta}).loss.item<float>()));
    }
  }
}

TEST_CASE("a GPU computes the sums and gradients of the CPU") {
  const DistillationInputs inputs = MakeInputs({40, 24, 32, 199, 211, true}, torch::kFloat32, torch::kCPU, 0.5);
  const DistillationOptions options{.chunk_tokens = 16};
  const Result expected = Evaluate(DistillationLoss, inputs, options);
  for (const torch::Device& device : TestDevices()) {
    if (device.is_cpu()) continue;
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

TEST_CASE("in bfloat16 the difference is that of its rounding") {
  for (const torch::Device& device : TestDevices()) {
    const DistillationInputs inputs = MakeInputs({64, 32, 32, 257, 257}, torch::kBFloat16, device, 0.3);
    for (const double alpha : {0.0, 0.5, 1.0}) CheckSame(inputs, {.alpha = alpha, .chunk_tokens = 16}, 2e-2);
    for (const double beta : {0.5, 1.0}) CheckSame(inputs, {.beta = beta, .chunk_tokens = 16}, 2e-2);
  }
}

TEST_CASE("in float16 the difference is that of its rounding") {
  for (const torch::Device& device : TestDevices()) {
    const DistillationInputs inputs = MakeInputs({64, 32, 32, 257, 257, true}, torch::kFloat16, device, 0.3);
    for (const double scale : {1.0, 64.0}) {
      for (const double beta : {0.0, 0.5, 1.0}) {
        CheckSame(inputs, {.beta = beta, .chunk_tokens = 16, .gradient_scale = scale}, 3e-3);
      }
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

TEST_CASE("the head's gradient is made in memory that is lent, whatever it holds") {
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64, torch::kBFloat16}) {
    for (const int64_t tokens : {0, 12}) {
      DistillationInputs inputs = MakeInputs({tokens, 8, 8, 40, 48, true}, dtype, torch::kCPU);
      inputs.labels = inputs.labels.remainder(31);
      const DistillationOptions options{.chunk_tokens = 5, .vocabulary = 31};
      const Result own = Evaluate(DistillationLoss, inputs, options);
      const torch::Dtype wide = at::promote_types(dtype, torch::kFloat32);
      inputs.student_weight_gradient = torch::full({40, 8}, NAN, wide);
      const Result lent = Evaluate(DistillationLoss, inputs, options);
      INFO(dtype << ", " << tokens << " tokens");
      for (size_t i = 0; i < own.gradients.size(); ++i) CHECK(torch::equal(lent.gradients[i], own.gradients[i]));
      CHECK(torch::equal(inputs.student_weight_gradient.to(dtype), own.gradients[1]));
      inputs.student_weight_gradient = torch::full({40, 8}, 1, wide).t();
      CHECK_THROWS_AS(DistillationLoss(inputs, options), c10::Error);
    }
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
  for (const double beta : {0.0, 0.5, 1.0}) CheckSame(inputs, {.beta = beta, .chunk_tokens = 4}, 1e-5);
  const Result result = Evaluate(DistillationLoss, inputs, {});
  CHECK(std::isfinite(result.sums.loss.item<float>()));
  for (const Tensor& gradient : result.gradients) CHECK(gradient.isfinite().all().item<bool>());
}

TEST_CASE("a student that equals its teacher has no divergence and no gradient of it") {
  DistillationInputs inputs = MakeInputs({6, 4, 4, 9, 9}, torch::kFloat32, torch::kCPU);
  inputs.teacher_hidden = inputs.student_hidden;
  inputs.teacher_weight = inputs.student_weight;
  const Result result = Evaluate(DistillationLoss, inputs, {.alpha = 1.0});
  CHECK(std::abs(result.sums.divergence.item<float>()) < 1e-5f);
  CHECK(result.gradients[1].abs().max().item<float>() < 1e-5f);
}

TEST_CASE("gradients are what finite differences say, T squared included") {
  DistillationInputs inputs = MakeInputs({3, 4, 5, 6, 6, true}, torch::kFloat64, torch::kCPU);
  inputs.student_logits = {.scale = 0.7, .softcap = 5};
  const double beta = GENERATE(0.0, 0.3, 1.0);
  const DistillationOptions options{.temperature = 3.0, .alpha = 0.7, .beta = beta, .chunk_tokens = 2};
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

TEST_CASE("gradients go on into the models that made the hidden states") {
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
  contains(message(good, {.chunk_tokens = 0}), "chunk_tokens");
  contains(message(good, {.beta = -0.1}), "beta");
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
