#include "libdistill/loss/distillation_loss.h"

#include <torch/nn/functional/loss.h>

#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

TEST_CASE("the cosine loss and its gradient are those of torch's cosine_embedding_loss") {
  torch::manual_seed(3);
  for (const torch::Device& device : TestDevices()) {
    for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
      for (const int64_t tokens : {1, 5, 64}) {
        INFO(device << ' ' << dtype << ", " << tokens << " tokens");
        Tensor teacher = torch::randn({tokens, 24}, torch::TensorOptions(dtype).device(device));
        Tensor student = torch::randn_like(teacher);
        if (tokens > 1) {
          student[0].zero_();  // what has no direction has no gradient that is not finite
          student[1] = teacher[1] * 2;
        }
        student.requires_grad_();
        CosineLoss(student, teacher).mul(1.5).backward();
        const Tensor actual = student.grad().clone();
        student.mutable_grad().reset();
        const auto options = torch::nn::functional::CosineEmbeddingLossFuncOptions().reduction(torch::kSum);
        const Tensor targets = torch::ones({tokens}, teacher.options());
        const Tensor expected = torch::nn::functional::cosine_embedding_loss(student, teacher, targets, options);
        expected.mul(1.5).backward();
        CHECK(RelativeError(CosineLoss(student, teacher), expected) < 1e-5);
        CHECK(RelativeError(actual, student.grad()) < 1e-5);
        CHECK_FALSE(teacher.requires_grad());
      }
    }
  }
}

TEST_CASE("states of different sizes have no cosine") {
  CHECK_THROWS_WITH(CosineLoss(torch::ones({2, 3}), torch::ones({2, 4})), Catch::Contains("[2, 3] and [2, 4]"));
}

}  // namespace
}  // namespace distill
