#include "libdistill/nn/gru_recurrence.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "libdistill/nn/gru_sweep.h"
#include "libdistill/nn/row_products.h"
#include "libdistill/nn/sweep_type.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/parallel.h"

namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The frames of one time.
struct Time {
  int64_t begin = 0;  // the first of N
  int64_t rows = 0;
};

std::vector<Time> TimesInOrder(const Tensor& batch_sizes, bool is_reverse) {
  std::vector<Time> times;
  int64_t begin = 0;
  const int64_t* sizes = batch_sizes.const_data_ptr<int64_t>();
  for (int64_t t = 0; t < batch_sizes.size(0); ++t) {
    times.push_back({begin, sizes[t]});
    begin += sizes[t];
  }
  if (is_reverse) std::reverse(times.begin(), times.end());
  return times;
}

template <typename Sweep, typename Frame>
void SweepRows(Sweep sweep, const Frame& frame, int64_t rows) {
  ParallelFor(rows, std::max<int64_t>(1, kSweepGrain / (3 * frame.size)),
              [&](int64_t begin, int64_t end) { sweep(frame, begin, end); });
}

DType TypeOf(const Tensor& tensor) { return OrThrow(FromTorch(tensor.scalar_type())); }

// The elements of a tensor, for either type; how many elements begin is in units of the tensor's own.
const void* ElementsOf(const Tensor& tensor, int64_t begin = 0) {
  return static_cast<const char*>(tensor.const_data_ptr()) + begin * tensor.element_size();
}
void* MutableElementsOf(const Tensor& tensor, int64_t begin = 0) {
  return static_cast<char*>(tensor.mutable_data_ptr()) + begin * tensor.element_size();
}

// The weights of the state, laid out for products of one time's rows.
class StateWeights {
 public:
  // x W^T, as the forward pass has it, or x W.
  StateWeights(const Tensor& weight, bool transposed) : loops_(*RowProductLoopsFor(TypeOf(weight))) {
    weight_ = weight.contiguous();
    const int64_t rows = weight.size(0), columns = weight.size(1);
    matrix_ =
        transposed
            ? MatrixView{.weight = ElementsOf(weight_), .out = rows, .in = columns, .out_stride = columns}
            : MatrixView{
                  .weight = ElementsOf(weight_), .out = columns, .in = rows, .out_stride = 1, .in_stride = columns};
    packed_ = at::empty({PackedElements(loops_, matrix_)}, weight.options());
    void* packed = MutableElementsOf(packed_);
    OverPanels(1, [&](int64_t begin, int64_t end) { loops_.pack(matrix_, packed, begin, end); });
  }

  void Multiply(const RowProduct& product) const {
    const void* packed = ElementsOf(packed_);
    OverPanels(product.rows,
               [&](int64_t begin, int64_t end) { loops_.multiply(matrix_, packed, product, begin, end); });
  }

 private:
  template <typename Body>
  void OverPanels(int64_t rows, Body body) const {
    constexpr int64_t kGrain = 1 << 18;  // multiplications that a thread should have at least
    const int64_t grain = std::max<int64_t>(1, kGrain / (rows * matrix_.in * loops_.panel));
    ParallelFor(PanelsOf(loops_, matrix_.out), grain, body);
  }

  const RowProductLoops& loops_;
  MatrixView matrix_;
  Tensor weight_, packed_;
};

struct States {
  Tensor output;  // [N, H]
  Tensor kept;    // [N, 4H], or undefined
};

States Forward(const GruSequence& g, bool keeps) {
  const int64_t frames = g.of_frames.size(0), size = g.weight.size(1);
  States states = {at::empty({frames, size}, g.of_frames.options()), {}};
  if (keeps) states.kept = at::empty({frames, 4 * size}, g.of_frames.options());
  const StateWeights weights(g.weight, /*transposed=*/true);
  const GruSweeps& sweeps = GruSweepsFor(TypeOf(g.weight));
  const bool is_narrow = g.weight.scalar_type() != torch::kFloat32;
  const Tensor bias = g.bias.to(torch::kFloat32).contiguous();
  const Tensor state = g.start.to(torch::kFloat32, /*non_blocking=*/false, /*copy=*/true).contiguous();
  const Tensor operand = is_narrow ? g.start.clone(at::MemoryFormat::Contiguous) : state;
  const Tensor of_state = at::empty({state.size(0), 3 * size}, state.options());
  for (const Time& time : TimesInOrder(g.batch_sizes, g.is_reverse)) {
    weights.Multiply({.x = ElementsOf(operand),
                      .y = of_state.mutable_data_ptr<float>(),
                      .rows = time.rows,
                      .bias = bias.const_data_ptr<float>()});
    const GruFrame frame = {
        .size = size,
        .of_frame = ElementsOf(g.of_frames, time.begin * 3 * size),
        .of_state = of_state.const_data_ptr<float>(),
        .state = state.mutable_data_ptr<float>(),
        .output = MutableElementsOf(states.output, time.begin * size),
        .operand = is_narrow ? MutableElementsOf(operand) : nullptr,
        .kept = keeps ? MutableElementsOf(states.kept, time.begin * 4 * size) : nullptr,
    };
    SweepRows(sweeps.forward, frame, time.rows);
  }
  return states;
}

// [N, H]: of each frame the state before it.
Tensor StatesBefore(const std::vector<Time>& times, const Tensor& output, const Tensor& start) {
  const Tensor before = at::empty_like(output), first = start.contiguous();
  const int64_t size = output.size(1), row_bytes = size * output.element_size();
  const auto copy = [&](const Tensor& from, int64_t from_row, int64_t to_row, int64_t rows) {
    if (rows == 0) return;
    std::memcpy(MutableElementsOf(before, to_row * size), ElementsOf(from, from_row * size),
                static_cast<size_t>(rows * row_bytes));
  };
  Time last = {0, 0};
  for (const Time& time : times) {
    const int64_t old_rows = std::min(last.rows, time.rows);
    copy(output, last.begin, time.begin, old_rows);
    copy(first, old_rows, time.begin + old_rows, time.rows - old_rows);
    last = time;
  }
  return before;
}

struct Gradients {
  Tensor of_frames, weight, bias, start;
};

Gradients Backward(const GruSequence& g, const States& states, const Tensor& gradient) {
  const int64_t size = g.weight.size(1);
  const std::vector<Time> times = TimesInOrder(g.batch_sizes, g.is_reverse);
  const Tensor before = StatesBefore(times, states.output, g.start);
  const GruSweeps& sweeps = GruSweepsFor(TypeOf(g.weight));
  Gradients gradients;
  gradients.of_frames = at::empty({before.size(0), 3 * size}, before.options());
  const Tensor of_state = at::empty_like(gradients.of_frames);
  const Tensor of_start = at::zeros(g.start.sizes(), g.start.options().dtype(torch::kFloat32));
  {
    const StateWeights weights(g.weight, /*transposed=*/false);
    for (auto time = times.rbegin(); time != times.rend(); ++time) {
      const GruFrameGradient frame = {
          .size = size,
          .kept = ElementsOf(states.kept, time->begin * 4 * size),
          .before = ElementsOf(before, time->begin * size),
          .output = ElementsOf(gradient, time->begin * size),
          .state = of_start.mutable_data_ptr<float>(),
          .of_frame = MutableElementsOf(gradients.of_frames, time->begin * 3 * size),
          .of_state = MutableElementsOf(of_state, time->begin * 3 * size),
      };
      SweepRows(sweeps.backward, frame, time->rows);
      weights.Multiply({.x = frame.of_state, .y = frame.state, .rows = time->rows, .adds = true});
    }
  }
  gradients.start = of_start.to(g.start.scalar_type());
  gradients.weight = of_state.t().mm(before);
  gradients.bias = of_state.sum(0);
  return gradients;
}

struct GruFunction : torch::autograd::Function<GruFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& of_frames, const Tensor& weight, const Tensor& bias,
                        const Tensor& start, const Tensor& batch_sizes, bool is_reverse, bool keeps) {
    const States states = Forward({of_frames, weight, bias, start, batch_sizes, is_reverse}, keeps);
    if (keeps) {
      ctx->save_for_backward({weight, start, batch_sizes, states.output, states.kept});
      ctx->saved_data["is_reverse"] = is_reverse;
    }
    return states.output;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    RequireFirstDerivative();
    const variable_list saved = ctx->get_saved_variables();
    const GruSequence sequence = {{}, saved[0], {}, saved[1], saved[2], ctx->saved_data["is_reverse"].toBool()};
    const Gradients found = Backward(sequence, {saved[3], saved[4]}, gradients[0].contiguous());
    return {found.of_frames, found.weight, found.bias, found.start, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor RunGru(const GruSequence& g) {
  const torch::Dtype type = g.of_frames.scalar_type();
  if (RowProductLoopsFor(TypeOf(g.of_frames)) == nullptr) {
    const auto wide = [](const Tensor& tensor) { return tensor.to(torch::kFloat32); };
    return RunGru({wide(g.of_frames), wide(g.weight), wide(g.bias), wide(g.start), g.batch_sizes, g.is_reverse})
        .to(type);
  }
  bool keeps = false;
  for (const Tensor& input : {g.of_frames, g.weight, g.bias, g.start}) {
    keeps = keeps || (at::GradMode::is_enabled() && input.requires_grad());
  }
  return GruFunction::apply(g.of_frames.contiguous(), g.weight, g.bias, g.start, g.batch_sizes, g.is_reverse, keeps);
}

}  // namespace distill
