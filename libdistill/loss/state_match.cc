#include "libdistill/loss/state_match.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kChunk = 256;  // tokens

torch::Dtype WideType(const Tensor& x) { return at::promote_types(x.scalar_type(), torch::kFloat32); }

// s P^T - t of tokens `first` .. first + count, wide.
Tensor Difference(const Tensor& student, const Tensor& projection, const Tensor& teacher, int64_t first,
                  int64_t count) {
  const Tensor projected = at::mm(student.narrow(0, first, count), projection.t());
  return projected.to(WideType(student)).sub_(teacher.narrow(0, first, count));
}

template <typename Visit>
void ForChunks(const Tensor& student, const Visit& visit) {
  for (int64_t first = 0; first < student.size(0); first += kChunk) {
    visit(first, std::min(kChunk, student.size(0) - first));
  }
}

// With d = s P^T - t of a token, G numbers:  grad_s = 2 / G d P    grad_P = 2 / G sum over tokens of d^T s
struct StateMatchFunction : torch::autograd::Function<StateMatchFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& student, const Tensor& projection,
                        const Tensor& teacher) {
    context->save_for_backward({student, projection, teacher});
    Tensor sum = at::zeros({}, student.options().dtype(WideType(student)));
    ForChunks(student, [&](int64_t first, int64_t count) {
      sum.add_(Difference(student, projection, teacher, first, count).square_().sum());
    });
    return sum.div_(static_cast<double>(teacher.size(1)));
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "second derivatives (create_graph) of this loss are not known");
    const variable_list saved = context->get_saved_variables();
    const Tensor &student = saved[0], &projection = saved[1], &teacher = saved[2];
    const Tensor scale = grads[0] * (2 / static_cast<double>(teacher.size(1)));
    Tensor of_student = at::empty_like(student);
    Tensor of_projection = at::zeros(projection.sizes(), projection.options().dtype(WideType(projection)));
    ForChunks(student, [&](int64_t first, int64_t count) {
      const Tensor difference =
          Difference(student, projection, teacher, first, count).mul_(scale).to(student.scalar_type());
      Tensor rows = of_student.narrow(0, first, count);
      at::mm_out(rows, difference, projection);
      of_projection.add_(at::mm(difference.t(), student.narrow(0, first, count)));
    });
    return {of_student, of_projection.to(projection.scalar_type()), Tensor()};
  }
};

void Check(const Tensor& student, const Tensor& projection, const Tensor& teacher) {
  TORCH_CHECK(student.dim() == 2 && projection.dim() == 2 && teacher.dim() == 2 && student.size(0) == teacher.size(0) &&
                  student.size(1) == projection.size(1) && projection.size(0) == teacher.size(1),
              "states ", student.sizes(), " and ", teacher.sizes(), " cannot be matched by a projection ",
              projection.sizes());
}

}  // namespace

Tensor StateMatchLoss(const Tensor& student, const Tensor& projection, const Tensor& teacher) {
  Check(student, projection, teacher);
  return StateMatchFunction::apply(student, projection, teacher.detach());
}

Tensor StateMatchReference(const Tensor& student, const Tensor& projection, const Tensor& teacher) {
  Check(student, projection, teacher);
  const Tensor projected = student.matmul(projection.t()).to(WideType(student));
  return (projected - teacher.detach()).square().mean(1).sum();
}

}  // namespace distill
