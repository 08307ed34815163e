#include "libdistill/loss/state_match.h"

#include <vector>

#include "tests/support/catch.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

struct Shape {
  int64_t tokens, student, teacher;
};
// None, one, some of a chunk, whole chunks, and some more.
constexpr Shape kShapes[] = {{0, 3, 4}, {1, 4, 6}, {7, 5, 9}, {256, 8, 8}, {600, 12, 5}};

struct Run {
  Tensor loss, of_student, of_projection;
};

template <typename Loss>
Run Of(const Loss& loss, const Tensor& student, const Tensor& projection, const Tensor& teacher) {
  const Tensor s = student.detach().clone().requires_grad_(), p = projection.detach().clone().requires_grad_();
  const Tensor value = loss(s, p, teacher);
  (value * 1.5).backward();
  return {value.detach(), s.grad(), p.grad()};
}

TEST_CASE("states are matched as in plain tensor operations, in chunks, with the same gradients") {
  torch::manual_seed(1);
  for (const torch::Device& device : TestDevices()) {
    for (const Shape& shape : kShapes) {
      for (const torch::Dtype dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16}) {
        INFO(shape.tokens << ", " << shape.student << " to " << shape.teacher << ", " << dtype << " on " << device);
        const auto options = torch::TensorOptions(dtype).device(device);
        const Tensor student = torch::randn({shape.tokens, shape.student}).to(options),
                     projection = torch::randn({shape.teacher, shape.student}).to(options),
                     teacher = torch::randn({shape.tokens, shape.teacher}).to(options);
        const Run actual = Of(StateMatchLoss, student, projection, teacher);
        const auto wide = [](const Tensor& x) { return x.to(torch::kFloat64); };
        const Run expected = Of(StateMatchReference, wide(student), wide(projection), wide(teacher));
        const double tolerance = dtype == torch::kFloat64 ? 1e-12 : dtype == torch::kFloat32 ? 1e-5 : 3e-2;
        CHECK(actual.of_student.scalar_type() == dtype);
        if (shape.tokens == 0) {
          CHECK(actual.loss.item<double>() == 0);
          CHECK(actual.of_projection.abs().max().item<double>() == 0);
          continue;
        }
        CHECK(RelativeError(wide(actual.loss), expected.loss) < tolerance);
        CHECK(RelativeError(wide(actual.of_student), expected.of_student) < tolerance);
        CHECK(RelativeError(wide(actual.of_projection), expected.of_projection) < tolerance);
      }
    }
  }
}

TEST_CASE("gradients of matched states are those of finite differences") {
  torch::manual_seed(2);
  Tensor student = torch::randn({4, 3}, torch::kFloat64), projection = torch::randn({5, 3}, torch::kFloat64);
  const Tensor teacher = torch::randn({4, 5}, torch::kFloat64);
  const Run run = Of(StateMatchLoss, student, projection, teacher);
  constexpr double kStep = 1e-6;
  const torch::NoGradGuard no_grad;
  for (auto [values, gradient] : {std::pair(student, run.of_student), std::pair(projection, run.of_projection)}) {
    const Tensor flat = values.view(-1), of = gradient.view(-1);
    for (int64_t i = 0; i < flat.numel(); ++i) {
      const double before = flat[i].item<double>();
      const auto at = [&](double value) {
        flat[i].fill_(value);
        return StateMatchLoss(student, projection, teacher).item<double>();
      };
      const double slope = (at(before + kStep) - at(before - kStep)) / (2 * kStep);
      flat[i].fill_(before);
      CHECK(of[i].item<double>() == Approx(1.5 * slope).epsilon(1e-6).margin(1e-8));
    }
  }
}

TEST_CASE("states that no projection joins are refused with their shapes") {
  const Tensor states = torch::ones({2, 3});
  CHECK_THROWS_WITH(StateMatchLoss(states, torch::ones({4, 3}), torch::ones({2, 5})),
                    Catch::Contains("[2, 3] and [2, 5]") && Catch::Contains("[4, 3]"));
}

}  // namespace
}  // namespace distill
