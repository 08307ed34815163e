// AdamW over 64 Mi elements: the sweep (optim/), LibTorch's fused kernel, and the limit, which is copying as many
// bytes: 28 an element, 30 with a bfloat16 working copy.
//
//   build/bin/bench_optimizer [--elements N]
#include <ATen/ops/_fused_adamw.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "CLI/CLI.hpp"
#include "libdistill/core/vectors.h"
#include "libdistill/optim/update_runs.h"

namespace distill {
namespace {

constexpr int kRounds = 9;

// The medians of all `works`, run in rotation: what else the machine does slows all of them alike.
std::vector<double> MediansMs(const std::vector<std::function<void()>>& works) {
  std::vector<std::vector<double>> ms(works.size());
  for (int round = 0; round <= kRounds; ++round) {
    for (size_t i = 0; i < works.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      works[i]();
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
      if (round > 0) ms[i].push_back(took.count());
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& of_one : ms) {
    std::sort(of_one.begin(), of_one.end());
    medians.push_back(of_one[kRounds / 2]);
  }
  return medians;
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
  const torch::Tensor step = torch::full({}, 3.0), scale = torch::full({1}, 7.0f);
  at::_fused_adamw_({state.master}, {state.gradient}, {state.exp_avg}, {state.exp_avg_sq}, {}, {step}, 1e-4, 0.9, 0.999,
                    0.01, 1e-8, /*amsgrad=*/false, /*maximize=*/false, scale, /*found_inf=*/{});
  if (has_working) state.working.copy_(state.master);
}

void Bench(int64_t elements, bool has_working) {
  State state(elements);
  const AdamWFactors factors = FactorsOf(0.9, 0.999, 1e-8, 0.01, 1e-4, 7.0, 3);
  const torch::Tensor before = state.master.clone(), gradient = state.gradient.clone();
  FusedAdamW(state, has_working);
  const torch::Tensor expected = std::exchange(state.master, before);
  state.gradient = gradient;  // LibTorch's kernel writes the unscaled one back
  for (torch::Tensor* moments : {&state.exp_avg, &state.exp_avg_sq}) moments->zero_();
  UpdateRuns({state.Run(has_working)}, factors, torch::kCPU);
  TORCH_CHECK(torch::allclose(state.master, expected, 1e-4, 1e-6), "the sweep and LibTorch's kernel differ");

  const int64_t bytes = elements * (has_working ? 30 : 28);
  const torch::Tensor from = torch::ones({bytes / 2}, torch::kUInt8), to = torch::zeros_like(from);
  const std::vector<double> ms =
      MediansMs({[&] { UpdateRuns({state.Run(has_working)}, factors, torch::kCPU); },
                 [&] { FusedAdamW(state, has_working); }, [&] { torch::Tensor(to).copy_(from); }});
  const double ours = ms[0], fused = ms[1], limit = ms[2];
  const char* precision = has_working ? "bf16" : "fp32";
  std::printf("%s: sweep %.1f ms (%s, %.1f GB/s), LibTorch's fused kernel%s %.1f ms, copying as much %.1f ms\n",
              precision, ours, NameOf(VectorsOfThisCpu()), static_cast<double>(bytes) / ours / 1e6,
              has_working ? " and a copy" : "", fused, limit);
  std::printf("JSON {\"case\": \"cpu/%s\", \"ms\": %.3f, \"fused_ms\": %.3f, \"limit_ms\": %.3f}\n", precision, ours,
              fused, limit);
}

}  // namespace
}  // namespace distill

int main(int argc, char** argv) {
  CLI::App app("AdamW: the sweep, LibTorch's fused kernel, and a copy of as many bytes");
  int64_t elements = 64 << 20;
  app.add_option("--elements", elements)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  distill::Bench(elements, false);
  distill::Bench(elements, true);
}
