#include "libdistill/nn/gru_recurrence.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "libdistill/nn/gru_sweep.h"
#include "libdistill/nn/sweep_type.h"
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

struct States {
  Tensor output;  // [N, H]
  Tensor kept;    // [N, 4H], or undefined
};

States Forward(const GruSequence& g, bool keeps) {
  const int64_t frames = g.of_frames.size(0), size = g.weight.size(1);
  States states = {at::empty({frames, size}, g.of_frames.options()), {}};
  if (keeps) states.kept = at::empty({frames, 4 * size}, g.of_frames.options());
  const Tensor transposed = g.weight.t();
  Tensor state = g.start.clone(at::MemoryFormat::Contiguous);
  Tensor of_state = at::empty({state.size(0), 3 * size}, state.options());
  for (const Time& time : TimesInOrder(g.batch_sizes, g.is_reverse)) {
    Tensor product = of_state.narrow(0, 0, time.rows);
    at::addmm_out(product, g.bias, state.narrow(0, 0, time.rows), transposed);
    const GruFrame frame = {
        .size = size,
        .of_frame = g.of_frames.const_data_ptr<float>() + time.begin * 3 * size,
        .of_state = of_state.const_data_ptr<float>(),
        .state = state.mutable_data_ptr<float>(),
        .output = states.output.mutable_data_ptr<float>() + time.begin * size,
        .kept = keeps ? states.kept.mutable_data_ptr<float>() + time.begin * 4 * size : nullptr,
    };
    SweepRows(GruSweepsOfThisCpu().forward, frame, time.rows);
  }
  return states;
}

// [N, H]: of each frame the state before it.
Tensor StatesBefore(const std::vector<Time>& times, const Tensor& output, const Tensor& start) {
  Tensor before = at::empty_like(output);
  Time last = {0, 0};
  for (const Time& time : times) {
    const int64_t old_rows = std::min(last.rows, time.rows), new_rows = time.rows - old_rows;
    before.narrow(0, time.begin, old_rows).copy_(output.narrow(0, last.begin, old_rows));
    before.narrow(0, time.begin + old_rows, new_rows).copy_(start.narrow(0, old_rows, new_rows));
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
  Gradients gradients;
  gradients.of_frames = at::empty({before.size(0), 3 * size}, before.options());
  Tensor of_state = at::empty_like(gradients.of_frames);
  gradients.start = at::zeros_like(g.start, at::MemoryFormat::Contiguous);
  for (auto time = times.rbegin(); time != times.rend(); ++time) {
    const GruFrameGradient frame = {
        .size = size,
        .kept = states.kept.const_data_ptr<float>() + time->begin * 4 * size,
        .before = before.const_data_ptr<float>() + time->begin * size,
        .output = gradient.const_data_ptr<float>() + time->begin * size,
        .state = gradients.start.mutable_data_ptr<float>(),
        .of_frame = gradients.of_frames.mutable_data_ptr<float>() + time->begin * 3 * size,
        .of_state = of_state.mutable_data_ptr<float>() + time->begin * 3 * size,
    };
    SweepRows(GruSweepsOfThisCpu().backward, frame, time->rows);
    gradients.start.narrow(0, 0, time->rows).addmm_(of_state.narrow(0, time->begin, time->rows), g.weight);
  }
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
  bool keeps = false;
  for (const Tensor& input : {g.of_frames, g.weight, g.bias, g.start}) {
    keeps = keeps || (at::GradMode::is_enabled() && input.requires_grad());
  }
  return GruFunction::apply(g.of_frames.contiguous(), g.weight, g.bias, g.start, g.batch_sizes, g.is_reverse, keeps);
}

}  // namespace distill
