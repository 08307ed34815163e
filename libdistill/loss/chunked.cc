#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "libdistill/loss/distillation_loss.h"
#include "libdistill/loss/inputs.h"

// Shapes: N loss tokens, C of them in one chunk, V vocabulary, H hidden.
//
// Logits of all tokens times the vocabulary are what runs out of memory first: 4096 tokens of 152,064 words are 2.5 GB
// in float32, and autograd would keep several such tensors. Here the forward goes through the tokens chunk by chunk,
// and takes the gradient along while a chunk's logits are at hand. For one token, with student logits s, teacher logits
// t, temperature T, p = softmax(t / T), q = softmax(s / T), label y:
//   T^2 KL = T^2 sum p (log p - log q)      d/ds = T (q - p)
//   CE     = -log softmax(s)[y]             d/ds = softmax(s) - onehot(y)
// So G = alpha T (q - p) + (1 - alpha) (softmax(s) - onehot(y)) is complete after a few passes over [C, V], and
//   grad_hidden[chunk] = G W        grad_weight += G^T hidden[chunk]        grad_bias += sum over rows of G
// are kept: [N, H], [V, H] and [V], what the backward would give anyway. The backward multiplies them by the incoming
// scalar. Cost: the three matrix products of any head, once; four buffers of [C, V] in float32.
namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A head's first V rows, and its logits chunk by chunk.
class Head {
 public:
  Head(const Tensor& weight, const Tensor& bias, int64_t vocabulary, torch::Dtype wide)
      : weight_(weight.detach().narrow(0, 0, vocabulary)), weight_t_(weight_.t()) {
    if (bias.defined()) bias_ = bias.detach().narrow(0, 0, vocabulary).to(wide);
  }
  const Tensor& weight() const { return weight_; }

  // Products in the dtype of the weights, everything after in that of `logits` [C, V].
  void LogitsInto(Tensor& logits, const Tensor& hidden) const {
    if (logits.scalar_type() == hidden.scalar_type()) {
      at::mm_out(logits, hidden, weight_t_);
    } else {
      logits.copy_(at::mm(hidden, weight_t_));
    }
    if (bias_.defined()) logits.add_(bias_);
  }

 private:
  Tensor weight_, weight_t_, bias_;
};

struct Gradients {
  Tensor hidden;  // [N, H]
  Tensor weight;  // like the student's head, wide
  Tensor bias;    // like the student's bias, wide
};

class Chunks {
 public:
  Chunks(const DistillationInputs& inputs, const DistillationOptions& options, int64_t vocabulary)
      : inputs_(inputs),
        options_(options),
        wide_(at::promote_types(inputs.student_hidden.scalar_type(), torch::kFloat32)),
        has_teacher_(inputs.teacher_hidden.defined()),
        tokens_(inputs.labels.size(0)),
        vocabulary_(vocabulary),
        student_(inputs.student_weight, inputs.student_bias, vocabulary, wide_) {
    if (has_teacher_) teacher_.emplace(inputs.teacher_weight, inputs.teacher_bias, vocabulary, wide_);
    const auto sums = inputs.student_hidden.options().dtype(torch::kFloat64).requires_grad(false);
    kl_ = torch::zeros({}, sums);
    ce_ = torch::zeros({}, sums);
  }

  // Which gradients to take along.
  void WantGradients(bool hidden, bool weight, bool bias) {
    const Tensor& like = inputs_.student_hidden;
    if (hidden) gradients_.hidden = torch::zeros_like(like, like.options().requires_grad(false));
    const auto wide = like.options().dtype(wide_).requires_grad(false);
    if (weight) gradients_.weight = torch::zeros(inputs_.student_weight.sizes(), wide);
    if (bias) gradients_.bias = torch::zeros(inputs_.student_bias.sizes(), wide);
    wants_gradients_ = hidden || weight || bias;
  }

  DistillationSums Run() {
    const int64_t chunk = std::min(options_.chunk_tokens, tokens_);
    const auto wide = inputs_.student_hidden.options().dtype(wide_).requires_grad(false);
    for (Tensor& buffer : buffers_) buffer = torch::empty({chunk, vocabulary_}, wide);
    for (int64_t first = 0; first < tokens_; first += chunk) RunChunk(first, std::min(chunk, tokens_ - first));
    kl_.mul_(options_.temperature * options_.temperature);
    const Tensor loss = kl_ * options_.alpha + ce_ * (1 - options_.alpha);
    return {loss.to(wide_), kl_.to(wide_), ce_.to(wide_)};
  }

  const Gradients& gradients() const { return gradients_; }

 private:
  void RunChunk(int64_t first, int64_t count) {
    Tensor logits = buffers_[0].narrow(0, 0, count), teacher = buffers_[1].narrow(0, 0, count);
    Tensor gradient = buffers_[2].narrow(0, 0, count), log_q = buffers_[3].narrow(0, 0, count);
    const Tensor labels = inputs_.labels.narrow(0, first, count).unsqueeze(1);
    const Tensor hidden = inputs_.student_hidden.detach().narrow(0, first, count);
    const double alpha = options_.alpha, t = options_.temperature;
    student_.LogitsInto(logits, hidden);
    at::log_softmax_out(gradient, logits, 1);
    ce_.sub_(gradient.gather(1, labels).sum(torch::kFloat64));
    const bool takes_ce = wants_gradients_ && alpha < 1, takes_kl = wants_gradients_ && alpha > 0;
    if (has_teacher_) {
      teacher_->LogitsInto(teacher, inputs_.teacher_hidden.detach().narrow(0, first, count));
      if (t == 1) {
        log_q.copy_(gradient);
      } else {
        at::log_softmax_out(log_q, logits.div_(t), 1);
        teacher.div_(t);
      }
      // The student's logits are done with: their buffer takes log p, the teacher's takes p.
      Tensor log_p = at::log_softmax_out(logits, teacher, 1);
      at::exp_out(teacher, log_p);
      kl_.add_(log_p.sub_(log_q).mul_(teacher).sum(1).sum(torch::kFloat64));
      if (takes_kl) log_q.exp_().sub_(teacher).mul_(alpha * t);
    }
    if (takes_ce) {
      gradient.exp_().mul_(1 - alpha);
      gradient.scatter_add_(1, labels, torch::full({count, 1}, alpha - 1, gradient.options()));
      if (takes_kl) gradient.add_(log_q);
    }
    if (wants_gradients_) Accumulate(takes_ce ? gradient : log_q, hidden, first);
  }

  // `gradient` is that of the chunk's logits.
  void Accumulate(const Tensor& gradient, const Tensor& hidden, int64_t first) {
    if (gradients_.bias.defined()) gradients_.bias.narrow(0, 0, vocabulary_).add_(gradient.sum(0));
    const Tensor narrow = gradient.to(hidden.scalar_type());
    if (gradients_.hidden.defined()) {
      Tensor rows = gradients_.hidden.narrow(0, first, hidden.size(0));
      at::mm_out(rows, narrow, student_.weight());
    }
    if (!gradients_.weight.defined()) return;
    Tensor sum = gradients_.weight.narrow(0, 0, vocabulary_);
    if (narrow.scalar_type() == wide_) {
      sum.addmm_(narrow.t(), hidden);
    } else {
      sum.add_(at::mm(narrow.t(), hidden));
    }
  }

  const DistillationInputs& inputs_;
  const DistillationOptions& options_;
  const torch::Dtype wide_;  // float32; float64 for float64 inputs
  const bool has_teacher_;
  const int64_t tokens_, vocabulary_;
  const Head student_;
  std::optional<Head> teacher_;
  bool wants_gradients_ = false;
  Gradients gradients_;
  Tensor buffers_[4];  // [C, V]
  Tensor kl_, ce_;     // sums in float64: a step has many tokens
};

// A loss whose gradients are known already. The tensors are inputs only so that autograd finds them.
struct ReadyGradients : torch::autograd::Function<ReadyGradients> {
  static Tensor forward(AutogradContext* context, const Tensor& /*hidden*/, const Tensor& weight,
                        const std::optional<Tensor>& bias, const Tensor& loss, const Gradients& gradients) {
    context->save_for_backward({gradients.hidden, gradients.weight, gradients.bias});
    context->saved_data["weight_dtype"] = weight.scalar_type();
    context->saved_data["bias_dtype"] = bias.value_or(weight).scalar_type();
    return loss.clone();
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    variable_list result = context->get_saved_variables();
    const Tensor& incoming = grads[0];
    // The usual case: loss.backward(), the division by the tokens of the step comes later.
    const bool is_one = incoming.is_cpu() && incoming.item<double>() == 1.0;
    for (Tensor& gradient : result) {
      if (gradient.defined() && !is_one) gradient = gradient * incoming.to(gradient.scalar_type());
    }
    if (result[1].defined()) result[1] = result[1].to(context->saved_data["weight_dtype"].toScalarType());
    if (result[2].defined()) result[2] = result[2].to(context->saved_data["bias_dtype"].toScalarType());
    result.resize(5);
    return result;
  }
};

}  // namespace

DistillationSums DistillationLoss(const DistillationInputs& inputs, const DistillationOptions& options) {
  const int64_t vocabulary = CheckInputs(inputs, options);
  Chunks chunks(inputs, options, vocabulary);
  const auto wants = [](const Tensor& tensor) {
    return tensor.defined() && tensor.requires_grad() && torch::GradMode::is_enabled();
  };
  const bool hidden = wants(inputs.student_hidden), weight = wants(inputs.student_weight);
  const bool bias = wants(inputs.student_bias);
  DistillationSums sums;
  {
    const torch::NoGradGuard no_grad;
    chunks.WantGradients(hidden, weight, bias);
    sums = chunks.Run();
  }
  if (hidden || weight || bias) {
    const Tensor& student_bias = inputs.student_bias;
    sums.loss = ReadyGradients::apply(inputs.student_hidden, inputs.student_weight,
                                      student_bias.defined() ? std::optional(student_bias) : std::nullopt, sums.loss,
                                      chunks.gradients());
  }
  return sums;
}

}  // namespace distill
