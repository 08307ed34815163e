#include "tests/loss/compare_losses.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "libdistill/core/field_text.h"
#include "tests/tensor/test_tensors.h"

namespace distill::testing {

using torch::Tensor;

DistillationInputs MakeInputs(const InputShape& s, torch::Dtype dtype, torch::Device device, double scale) {
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

Result Evaluate(LossFunction loss, const DistillationInputs& inputs, const DistillationOptions& options,
                double incoming) {
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
                         &wide.teacher_weight, &wide.teacher_bias, &wide.teacher_values}) {
    if (tensor->defined()) *tensor = tensor->to(torch::kFloat64);
  }
  return wide;
}

// Where nearly everything cancels, only an absolute error says anything.
double Error(const Tensor& actual, const Tensor& expected) {
  const double largest = expected.numel() > 0 ? expected.abs().max().item<double>() : 0;
  return largest < 1e-6 ? actual.abs().max().item<double>() : RelativeError(actual, expected);
}

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

std::string NameOf(const DistillationOptions& options) {
  return absl::StrCat(FieldText(ChosenDivergence(options)), ", beta ", options.beta, ", skew ", FieldText(options.skew),
                      ", k ", FieldText(options.top_k_logits));
}

}  // namespace distill::testing
