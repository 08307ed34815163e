#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "libdistill/loss/chunk_products.h"
#include "libdistill/loss/chunk_sweep.h"
#include "libdistill/loss/distillation_loss.h"
#include "libdistill/loss/head_products.h"
#include "libdistill/loss/inputs.h"
#include "libdistill/loss/loss_memory.h"
#include "libdistill/loss/widening_sum.h"
#include "libdistill/tensor/parallel.h"
#include "libdistill/tensor/peak_memory.h"

// Shapes: N loss tokens, C of them in one chunk, V vocabulary, H hidden.
//
// Logits of all tokens times the vocabulary are what runs out of memory first: 4096 tokens of 152,064 words are 2.5 GB
// in float32, and autograd would keep several such tensors. Here the forward goes through the tokens chunk by chunk,
// and takes the gradient along while a chunk's logits are at hand:
//   products   hidden[chunk] W^T of both models, two buffers of [C, V] in the type of the weights, or in float32 by
//              products that give it of narrow matrices, as GPUs have (loss/head_products.h); of a teacher that is
//              logits or top-k values, these (loss/chunk_products.h)
//   sweep      losses, and gradient_scale times the gradient, G, in the type of the weights, in place of the student's
//              products (loss/sweep.h)
//   products   grad_hidden[chunk] = G W        grad_weight += G^T hidden[chunk]        grad_bias += sum over rows of G
//              grad_weight is float32, and the product itself adds to it, but for narrow types on CPUs
// What is kept is [N, H], [V, H] and [V], what the backward would give anyway. The backward multiplies them by the
// incoming scalar over gradient_scale. Cost: the three matrix products of any head and the teacher's one, and the
// sweep.
namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Times gradient_scale.
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
        tokens_(inputs.labels.size(0)),
        chunk_(ChunkTokens({.tokens = tokens_,
                            .chunk_tokens = options.chunk_tokens,
                            .vocabulary = vocabulary,
                            .student_hidden = inputs.student_hidden.size(1),
                            .teacher_hidden = inputs.teacher_hidden.defined() ? inputs.teacher_hidden.size(1) : 0,
                            .has_teacher_logits = inputs.teacher_values.defined(),
                            .element_bytes = static_cast<int64_t>(inputs.student_hidden.element_size()),
                            .on_gpu = inputs.student_hidden.is_cuda(),
                            .device_bytes = DeviceMemoryBytes(inputs.student_hidden.device())})),
        vocabulary_(vocabulary),
        student_(inputs.student_weight, inputs.student_bias, inputs.student_logits, vocabulary, chunk_),
        divergence_(DivergenceOf(inputs, options)),
        teacher_(inputs, options.temperature, vocabulary, chunk_, divergence_ == Divergence::kTopKKl) {}

  // Which gradients to take along.
  void WantGradients(bool hidden, bool weight, bool bias) {
    const Tensor& like = inputs_.student_hidden;
    if (hidden) gradients_.hidden = torch::zeros_like(like, like.options().requires_grad(false));
    const auto wide = like.options().dtype(wide_).requires_grad(false);
    if (weight) gradients_.weight = RoomForWeight(wide);
    if (bias) gradients_.bias = torch::zeros(inputs_.student_bias.sizes(), wide);
    wants_gradients_ = hidden || weight || bias;
  }

  DistillationSums Run() {
    // Sums in float64: a step has many tokens.
    const auto scalars = inputs_.student_hidden.options().dtype(torch::kFloat64).requires_grad(false);
    Tensor divergence = torch::zeros({}, scalars), ce = torch::zeros({}, scalars);
    for (int64_t first = 0; first < tokens_; first += chunk_) {
      const ChunkSums sums = RunChunk(first, std::min(chunk_, tokens_ - first));
      divergence.add_(sums.divergence);
      ce.add_(sums.ce);
    }
    divergence.mul_(options_.temperature * options_.temperature);
    const Tensor loss = divergence * options_.alpha + ce * (1 - options_.alpha);
    return {loss.to(wide_), divergence.to(wide_), ce.to(wide_)};
  }

  const Gradients& gradients() const { return gradients_; }

 private:
  // The first chunk's share is written there, unless it is to be added as later ones are.
  Tensor RoomForWeight(const torch::TensorOptions& options) const {
    const Tensor& memory = inputs_.student_weight_gradient;
    if (inputs_.adds_student_weight_gradient) return memory;
    const int64_t rows = inputs_.student_weight.size(0), written = tokens_ > 0 ? vocabulary_ : 0;
    const Tensor room = memory.defined() ? memory : torch::empty(inputs_.student_weight.sizes(), options);
    room.narrow(0, written, rows - written).zero_();
    return room;
  }

  ChunkSums RunChunk(int64_t first, int64_t count) {
    const Tensor hidden = inputs_.student_hidden.detach().narrow(0, first, count);
    const ChunkProducts student = student_.Products(hidden);
    const ChunkSums sums = SweepChunk(student, teacher_.Products(first, count), inputs_.labels.narrow(0, first, count),
                                      options_, divergence_, wants_gradients_);
    if (wants_gradients_) Accumulate(student.gradient(), hidden, first);
    return sums;
  }

  // `gradient` is that of the chunk's products.
  void Accumulate(const Tensor& gradient, const Tensor& hidden, int64_t first) {
    if (gradients_.bias.defined()) gradients_.bias.narrow(0, 0, vocabulary_).add_(gradient.sum(0, false, wide_));
    if (gradients_.hidden.defined()) {
      Tensor rows = gradients_.hidden.narrow(0, first, hidden.size(0));
      at::mm_out(rows, gradient, student_.weight());
    }
    if (!gradients_.weight.defined()) return;
    Tensor sum = gradients_.weight.narrow(0, 0, vocabulary_);
    const bool adds = first > 0 || inputs_.adds_student_weight_gradient;
    if (gradient.scalar_type() == wide_) {
      sum.addmm_(gradient.t(), hidden, /*beta=*/adds ? 1 : 0);  // with 0 what is there is not read
    } else if (student_.is_wide()) {
      WideMultiply(gradient.t(), hidden.contiguous(), adds, sum);
    } else {
      AddNarrowProduct(gradient.t(), hidden, adds, sum);
    }
  }

  // sum += a b, or = a b, of a narrow and a wide type. On CPUs a slice of the rows after the other: the product in the
  // narrow type stays in the cache, where those of all rows would take more than the head does. A GPU that has no wide
  // products adds a narrow tensor to a wide one as it is, and is the faster the larger a product is.
  static void AddNarrowProduct(const Tensor& a, const Tensor& b, bool adds, const Tensor& sum) {
    const int64_t rows = a.size(0), slice = b.is_cpu() ? std::min(rows, SliceRows(b.size(1), b.element_size())) : rows;
    const Tensor narrow = torch::empty({slice, b.size(1)}, b.options());
    for (int64_t first = 0; first < rows; first += slice) {
      const int64_t count = std::min(slice, rows - first);
      Tensor product = narrow.narrow(0, 0, count), part = sum.narrow(0, first, count);
      at::mm_out(product, a.narrow(0, first, count), b);
      adds ? AddTo(part, product) : (void)part.copy_(product);
    }
  }

  // LibTorch would widen all of the product first.
  static void AddTo(Tensor& sum, const Tensor& product) {
    const bool has_loops = product.is_cpu() && product.element_size() == 2 && sum.scalar_type() == torch::kFloat32;
    if (!has_loops || !product.is_contiguous() || !sum.is_contiguous()) {
      sum.add_(product);
      return;
    }
    const bool is_half = product.scalar_type() == torch::kFloat16;
    const auto* parts = static_cast<const uint16_t*>(product.const_data_ptr());
    auto* sums = sum.data_ptr<float>();
    constexpr int64_t kGrain = 32 << 10;
    ParallelFor(product.numel(), kGrain,
                [&](int64_t begin, int64_t end) { AddWidened(parts + begin, is_half, sums + begin, end - begin); });
  }

  const DistillationInputs& inputs_;
  const DistillationOptions& options_;
  const torch::Dtype wide_;  // float32; float64 for float64 inputs
  const int64_t tokens_, chunk_, vocabulary_;
  const Head student_;
  const Divergence divergence_;
  const TeacherChunks teacher_;
  bool wants_gradients_ = false;
  Gradients gradients_;
};

// In an AutogradContext.
struct Taker : torch::CustomClassHolder {
  std::function<void(const Tensor& gradient)> take;
};

// gradient * factor in `dtype`, rounded once. A scalar does not change the type that is computed in; on a GPU LibTorch
// would also round it to that type, in which 65,520 and more is infinite, so there it is a vector of one.
Tensor Times(const Tensor& gradient, const Tensor& factor, torch::Dtype dtype) {
  Tensor result = at::empty(gradient.sizes(), gradient.options().dtype(dtype));
  return at::mul_out(result, gradient, factor.is_cpu() ? factor : factor.view({1}));
}

// A loss whose gradients are known already. The tensors are inputs only so that autograd finds them.
struct ReadyGradients : torch::autograd::Function<ReadyGradients> {
  static Tensor forward(AutogradContext* context, const Tensor& /*hidden*/, const Tensor& weight,
                        const std::optional<Tensor>& bias, const Tensor& loss, const Gradients& gradients,
                        const DistillationInputs& inputs, double gradient_scale) {
    context->save_for_backward({gradients.hidden, gradients.weight, gradients.bias});
    context->saved_data["gradient_scale"] = gradient_scale;
    context->saved_data["weight_dtype"] = weight.scalar_type();
    context->saved_data["bias_dtype"] = bias.value_or(weight).scalar_type();
    context->saved_data["is_borrowed"] = inputs.student_weight_gradient.defined();
    context->saved_data["is_sum"] = inputs.adds_student_weight_gradient;
    if (inputs.take_student_weight_gradient && gradients.weight.defined()) {
      auto taker = c10::make_intrusive<Taker>();
      taker->take = inputs.take_student_weight_gradient;
      context->saved_data["taker"] = c10::IValue::make_capsule(std::move(taker));
    }
    return loss.clone();
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    variable_list result = context->get_saved_variables();
    const Tensor& incoming = grads[0];
    const double scale = context->saved_data["gradient_scale"].toDouble();
    // The usual case: loss.backward(), the division by the tokens of the step comes later.
    const bool is_right = incoming.is_cpu() && incoming.item<double>() == scale;
    const Tensor factor = is_right ? Tensor() : incoming / scale;
    const auto scaled = [&](const Tensor& gradient, torch::Dtype dtype) {
      if (!gradient.defined()) return gradient;
      return factor.defined() ? Times(gradient, factor, dtype) : gradient.to(dtype);
    };
    if (result[0].defined()) result[0] = scaled(result[0], result[0].scalar_type());
    const bool is_sum = context->saved_data["is_sum"].toBool();
    // What was added to a sum can no longer be scaled; the incoming scalar is rounded to the loss's type.
    TORCH_CHECK(!is_sum || !incoming.is_cpu() || std::abs(incoming.item<double>() / scale - 1) < 1e-6,
                "the head's gradient was added to a sum times ", scale,
                " when the loss was taken, and the backward pass begins with ", incoming.item<double>());
    result[1] = OfWeight(context, result[1], is_sum ? Tensor() : factor, scaled);
    result[2] = scaled(result[2], context->saved_data["bias_dtype"].toScalarType());
    result.resize(7);
    return result;
  }

 private:
  template <typename Scaled>
  static Tensor OfWeight(AutogradContext* context, Tensor gradient, const Tensor& factor, const Scaled& scaled) {
    if (!gradient.defined()) return gradient;
    const auto narrow = context->saved_data["weight_dtype"].toScalarType();
    const auto taker = context->saved_data.find("taker");
    const bool is_taken = taker != context->saved_data.end();
    // Borrowed memory is scaled in place, where it stays: it is for one backward pass anyway.
    const bool stays = context->saved_data["is_borrowed"].toBool() && (is_taken || narrow == gradient.scalar_type());
    if (stays && factor.defined()) gradient.mul_(factor);
    if (!stays) gradient = scaled(gradient, is_taken ? gradient.scalar_type() : narrow);
    if (!is_taken) return gradient;
    c10::static_intrusive_pointer_cast<Taker>(taker->second.toCapsule())->take(gradient);
    return Tensor();
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
                                      chunks.gradients(), inputs, options.gradient_scale);
  }
  return sums;
}

}  // namespace distill
