// AdamW over 64 Mi elements: the sweep (optim/), LibTorch's fused kernel as plain PyTorch calls it, and the limit,
// which is the memory traffic alone: four arrays are read, three of them written where they lie, and with a bfloat16
// working copy a fourth one is written.
//
//   build/bin/bench_optimizer [--elements N] [--rounds N]
#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adamw.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "bench/arguments.h"
#include "libdistill/core/vectors.h"
#include "libdistill/optim/update_runs.h"
#include "libdistill/tensor/parallel.h"

namespace distill {
namespace {

// The times of all `works` in order, run in rotation: what else the machine does slows all of them alike.
std::vector<std::vector<double>> SortedMs(const std::vector<std::function<void()>>& works, int rounds) {
  std::vector<std::vector<double>> ms(works.size());
  for (int round = 0; round <= rounds; ++round) {
    for (size_t i = 0; i < works.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      works[i]();
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
      if (round > 0) ms[i].push_back(took.count());
    }
  }
  for (std::vector<double>& of_one : ms) std::sort(of_one.begin(), of_one.end());
  return ms;
}

struct State {
  explicit State(int64_t elements)
      : master(torch::randn({elements})),
        gradient(torch::randn({elements})),
        exp_avg(torch::zeros({elements})),
        exp_avg_sq(torch::zeros({elements})),
        working(torch::zeros({elements}, torch::kBFloat16)) {}

  AdamWRun Run(bool has_working) const {
    AdamWRun run;
    run.master = master.data_ptr<float>();
    run.exp_avg = exp_avg.data_ptr<float>();
    run.exp_avg_sq = exp_avg_sq.data_ptr<float>();
    run.gradient = gradient.data_ptr<float>();
    if (has_working) run.working = working.data_ptr();
    run.count = master.numel();
    return run;
  }

  torch::Tensor master, gradient, exp_avg, exp_avg_sq, working;
};

void FusedAdamW(State& state, bool has_working) {
  const torch::Tensor step = torch::full({}, 3.0);
  at::_fused_adamw_({state.master}, {state.gradient}, {state.exp_avg}, {state.exp_avg_sq}, {}, {step}, 1e-4, 0.9, 0.999,
                    0.01, 1e-8, /*amsgrad=*/false, /*maximize=*/false);
  if (has_working) state.working.copy_(state.master);
}

// An update's memory traffic with next to no arithmetic.
[[gnu::target_clones("avx512f", "avx2", "default"), gnu::optimize("O3")]] void Touch(
    float* __restrict__ a, float* __restrict__ b, float* __restrict__ c, const float* __restrict__ gradient,
    uint16_t* __restrict__ working, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    a[i] += gradient[i];
    b[i] += gradient[i];
    c[i] += gradient[i];
    if (working != nullptr) working[i] = static_cast<uint16_t>(i);
  }
}

// `piece`: elements that a thread touches before it leaves the next ones to the others.
void TouchAll(const State& state, bool has_working, int64_t piece) {
  const int64_t count = state.master.numel(), threads = at::get_num_threads();
  ParallelFor(threads, 1, [&](int64_t first, int64_t last) {
    for (int64_t thread = first; thread < last; ++thread) {
      for (int64_t begin = thread * piece; begin < count; begin += threads * piece) {
        Touch(state.master.data_ptr<float>() + begin, state.exp_avg.data_ptr<float>() + begin,
              state.exp_avg_sq.data_ptr<float>() + begin, state.gradient.data_ptr<float>() + begin,
              has_working ? static_cast<uint16_t*>(state.working.data_ptr()) + begin : nullptr,
              std::min(piece, count - begin));
      }
    }
  });
}

void Bench(int64_t elements, bool has_working, int rounds) {
  State state(elements);
  const AdamWFactors factors = FactorsOf(0.9, 0.999, 1e-8, 0.01, 1e-4, 1.0, 3);
  const torch::Tensor before = state.master.clone();
  FusedAdamW(state, has_working);
  const torch::Tensor expected = std::exchange(state.master, before);
  for (torch::Tensor* moments : {&state.exp_avg, &state.exp_avg_sq}) moments->zero_();
  UpdateRuns({state.Run(has_working)}, factors, torch::kCPU);
  TORCH_CHECK(torch::allclose(state.master, expected, 1e-4, 1e-6), "the sweep and LibTorch's kernel differ");

  const auto ms = SortedMs(
      {[&] { UpdateRuns({state.Run(has_working)}, factors, torch::kCPU); }, [&] { FusedAdamW(state, has_working); },
       [&] { TouchAll(state, has_working, 1 << 12); }, [&] { TouchAll(state, has_working, 1 << 16); }},
      rounds);
  const auto middle = static_cast<size_t>(rounds / 2);
  const double ours = ms[0][middle], fused = ms[1][middle], limit = std::min(ms[2].front(), ms[3].front());
  const char* precision = has_working ? "bf16" : "fp32";
  std::printf(
      "%s: sweep %.1f ms (%s, %.1f GB/s), LibTorch's fused kernel%s %.1f ms, the memory traffic alone %.1f ms\n",
      precision, ours, NameOf(VectorsOfThisCpu()), static_cast<double>(elements * (has_working ? 30 : 28)) / ours / 1e6,
      has_working ? " and a copy" : "", fused, limit);
  std::printf("JSON {\"case\": \"cpu/%s/%d\", \"ms\": %.3f, \"fused_ms\": %.3f, \"limit_ms\": %.3f}\n", precision,
              at::get_num_threads(), ours, fused, limit);
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  distill::Arguments arguments("AdamW: the sweep, LibTorch's fused kernel, and the memory traffic alone");
  int64_t elements = 64 << 20;
  int rounds = 5;
  arguments.Add("--elements", elements).Positive();
  arguments.Add("--rounds", rounds, "of all three in turn; medians, and the best of the limit").Positive();
  if (const std::optional<int> code = arguments.Parse(argc, argv)) return *code;
  for (const bool has_working : {false, true}) distill::Bench(elements, has_working, rounds);
}
