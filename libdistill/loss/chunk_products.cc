#include "libdistill/loss/chunk_products.h"

#include <cmath>

#include "libdistill/loss/head_products.h"
#include "libdistill/loss/inputs.h"
#include "libdistill/loss/loss_memory.h"

namespace distill {
namespace {

using torch::Tensor;

// Where the probabilities of a token's values add up to more, even with bfloat16's rounding, they are none.
constexpr double kMostMass = 1.05;

}  // namespace

Head::Head(const Tensor& weight, const Tensor& bias, const LogitScaling& scaling, int64_t vocabulary, int64_t chunk)
    : weight_(weight.detach().narrow(0, 0, vocabulary)),
      weight_t_(weight_.t()),
      scaling_(scaling),
      is_wide_(HasWideProducts(weight)) {
  const torch::Dtype wide = at::promote_types(weight.scalar_type(), torch::kFloat32);
  if (bias.defined()) bias_ = bias.detach().narrow(0, 0, vocabulary).to(wide).contiguous();
  buffer_ = is_wide_ ? torch::empty({chunk, WideRowStride(vocabulary)}, weight_.options().dtype(torch::kFloat32))
                     : torch::empty({chunk, vocabulary}, weight_.options());
}

ChunkProducts Head::Products(const Tensor& hidden) const {
  const Tensor rows = buffer_.narrow(0, 0, hidden.size(0));
  if (is_wide_) {
    const int64_t vocabulary = weight_.size(0);
    const Tensor values = rows.narrow(1, 0, vocabulary);
    WideMultiply(hidden.contiguous(), weight_t_, /*adds=*/false, values);
    const Tensor gradient = rows.view(weight_.scalar_type()).narrow(1, 0, vocabulary);
    return {.values = values, .bias = bias_, .scaling = scaling_, .narrow_gradient = gradient};
  }
  Tensor values = rows;
  at::mm_out(values, hidden, weight_t_);
  return {.values = values, .bias = bias_, .scaling = scaling_};
}

TeacherChunks::TeacherChunks(const DistillationInputs& inputs, double temperature, int64_t vocabulary, int64_t chunk,
                             bool has_tail)
    : inputs_(inputs), temperature_(temperature), vocabulary_(vocabulary), has_tail_(has_tail) {
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
      Spread(inputs_.teacher_values.detach().narrow(0, first, count), inputs_.teacher_ids.narrow(0, first, count),
             products);
      break;
  }
  return products;
}

// Logits of which the softmax is that over the ids alone: KL(p, q) then has the terms of these ids, and gradients the
// q of all others, so that one sweep does for all forms.
void TeacherChunks::Spread(const Tensor& values, const Tensor& ids, ChunkProducts& products) const {
  const Tensor is_named = ids.ge(0).logical_and_(ids.lt(vocabulary_));
  const Tensor named = values.to(buffer_.scalar_type()).masked_fill(is_named.logical_not(), -INFINITY);
  const Tensor largest = named.amax(1, /*keepdim=*/true);
  // A token without a single id has no distribution: no number must come of it.
  const Tensor unnamed = (largest - kUnnamed * temperature_).masked_fill_(largest.eq(-INFINITY), NAN);
  Tensor logits = buffer_.narrow(0, 0, ids.size(0));
  logits.copy_(unnamed.expand_as(logits));
  products.values = logits.scatter_reduce_(1, ids.clamp(0, vocabulary_ - 1), named, "amax", /*include_self=*/true);
  if (has_tail_) products.tail = LogTail(named);
}

Tensor LogTail(const Tensor& log_probabilities) {
  const Tensor mass = log_probabilities.exp().sum(1);
  return torch::log1p(-mass.clamp_max(1)).masked_fill_(mass.gt(kMostMass), NAN);
}

void CheckMass(const Tensor& log_probabilities) {
  if (!log_probabilities.is_cpu() || log_probabilities.numel() == 0) return;
  const Tensor wide = log_probabilities.to(at::promote_types(log_probabilities.scalar_type(), torch::kFloat32));
  const Tensor mass = wide.exp().sum(1), is_too_much = mass.gt(kMostMass);
  if (!is_too_much.any().item<bool>()) return;
  const int64_t token = is_too_much.to(torch::kInt64).argmax().item<int64_t>();
  TORCH_CHECK_VALUE(false, "the teacher's top-k values of token ", token, " add up to a probability of ",
                    mass[token].item<double>(),
                    ": divergence topk_kl needs log-probabilities, by which the tail's share is known, and not logits");
}

}  // namespace distill
