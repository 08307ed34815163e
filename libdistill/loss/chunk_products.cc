#include "libdistill/loss/chunk_products.h"

#include <cmath>

#include "libdistill/loss/inputs.h"

namespace distill {
namespace {

using torch::Tensor;

// So far below a token's largest logit, in temperatures, are those of what the teacher does not name: their powers are
// 0 in float64, and the least that there is in float32 (2^-126 in the CPU's loops), whose products are far below what
// sums can show.
constexpr double kUnnamed = 1000;

}  // namespace

Head::Head(const Tensor& weight, const Tensor& bias, const LogitScaling& scaling, int64_t vocabulary, int64_t chunk)
    : weight_(weight.detach().narrow(0, 0, vocabulary)), weight_t_(weight_.t()), scaling_(scaling) {
  const torch::Dtype wide = at::promote_types(weight.scalar_type(), torch::kFloat32);
  if (bias.defined()) bias_ = bias.detach().narrow(0, 0, vocabulary).to(wide).contiguous();
  buffer_ = torch::empty({chunk, vocabulary}, weight_.options());
}

ChunkProducts Head::Products(const Tensor& hidden) const {
  Tensor values = buffer_.narrow(0, 0, hidden.size(0));
  at::mm_out(values, hidden, weight_t_);
  return {.values = values, .bias = bias_, .scaling = scaling_};
}

TeacherChunks::TeacherChunks(const DistillationInputs& inputs, double temperature, int64_t vocabulary, int64_t chunk)
    : inputs_(inputs), temperature_(temperature), vocabulary_(vocabulary) {
  const TeacherForm form = FormOf(inputs);
  if (form == TeacherForm::kStates) {
    head_.emplace(inputs.teacher_weight, inputs.teacher_bias, inputs.teacher_logits, vocabulary, chunk);
  } else if (form == TeacherForm::kTopK) {
    const Tensor& values = inputs.teacher_values;
    const torch::Dtype wide = at::promote_types(values.scalar_type(), torch::kFloat32);
    buffer_ = torch::empty({chunk, vocabulary}, values.options().dtype(wide).requires_grad(false));
  }
}

ChunkProducts TeacherChunks::Products(int64_t first, int64_t count) const {
  ChunkProducts products;
  switch (FormOf(inputs_)) {
    case TeacherForm::kNone:
      break;
    case TeacherForm::kStates:
      return head_->Products(inputs_.teacher_hidden.detach().narrow(0, first, count));
    case TeacherForm::kLogits:  // a copy where the vocabulary is cut
      products.values = inputs_.teacher_values.detach().narrow(0, first, count).narrow(1, 0, vocabulary_).contiguous();
      break;
    case TeacherForm::kTopK:
      products.values =
          Spread(inputs_.teacher_values.detach().narrow(0, first, count), inputs_.teacher_ids.narrow(0, first, count));
      break;
  }
  return products;
}

// Logits of which the softmax is that over the ids alone: KL(p, q) then has the terms of these ids, and gradients the
// q of all others, so that one sweep does for all forms.
Tensor TeacherChunks::Spread(const Tensor& values, const Tensor& ids) const {
  const Tensor is_named = ids.ge(0).logical_and_(ids.lt(vocabulary_));
  const Tensor named = values.to(buffer_.scalar_type()).masked_fill(is_named.logical_not(), -INFINITY);
  const Tensor largest = named.amax(1, /*keepdim=*/true);
  // A token without a single id has no distribution: no number must come of it.
  const Tensor unnamed = (largest - kUnnamed * temperature_).masked_fill_(largest.eq(-INFINITY), NAN);
  Tensor logits = buffer_.narrow(0, 0, ids.size(0));
  logits.copy_(unnamed.expand_as(logits));
  return logits.scatter_reduce_(1, ids.clamp(0, vocabulary_ - 1), named, "amax", /*include_self=*/true);
}

}  // namespace distill
