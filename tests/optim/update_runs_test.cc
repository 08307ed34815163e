// Many runs at once: on the CPU's threads, and on a GPU where there is one.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/types.h>

#include <cstdio>

#include "libdistill/optim/update_runs.h"
#include "tests/optim/adamw_state.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

using testing::AdamWState;

const AdamWFactors kFactors = FactorsOf(0.9, 0.999, 1e-8, 0.01, 0.1, 7.0, 3);

TEST_CASE("the number of threads changes no bit") {
  AdamWState one(300'001, 4), other(300'001, 4), small_one(5, 1), small_other(5, 1);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  UpdateRuns({one.run, small_one.run}, kFactors, at::kCPU);
  at::set_num_threads(4);
  UpdateRuns({other.run, small_other.run}, kFactors, at::kCPU);
  at::set_num_threads(before);
  CHECK(one.SameAs(other));
  CHECK(small_one.SameAs(small_other));
  AdamWState whole(300'001, 4);
  SweepAdamW(whole.run, kFactors);
  CHECK(one.SameAs(whole));
}

TEST_CASE("a GPU makes the CPU's update", "[gpu]") {
  if (!at::globalContext().hasCUDA()) return static_cast<void>(std::printf("skipped: no GPU here\n"));
  AdamWState expected(100'003, 4);
  AdamWState start(100'003, 4);
  const auto on_gpu = [](std::vector<float>& values) {
    return torch::from_blob(values.data(), {static_cast<int64_t>(values.size())}).to(at::kCUDA);
  };
  torch::Tensor master = on_gpu(start.master), exp_avg = on_gpu(start.exp_avg), exp_avg_sq = on_gpu(start.exp_avg_sq);
  const torch::Tensor gradient = on_gpu(start.gradient);
  torch::Tensor working = torch::zeros_like(master, torch::kBFloat16);
  AdamWRun run = start.run;
  run.master = master.data_ptr<float>();
  run.exp_avg = exp_avg.data_ptr<float>();
  run.exp_avg_sq = exp_avg_sq.data_ptr<float>();
  run.gradient = gradient.data_ptr<float>();
  run.working = working.data_ptr();
  UpdateRuns({run}, kFactors, master.device());
  SweepAdamW(expected.run, kFactors);
  const auto on_host = [](std::vector<float>& values) {
    return torch::from_blob(values.data(), {static_cast<int64_t>(values.size())});
  };
  CHECK(torch::allclose(master.cpu(), on_host(expected.master), 1e-5, 1e-6));
  CHECK(torch::allclose(exp_avg.cpu(), on_host(expected.exp_avg), 1e-5, 1e-6));
  CHECK(torch::allclose(exp_avg_sq.cpu(), on_host(expected.exp_avg_sq), 1e-5, 1e-6));
  CHECK(torch::equal(working, master.to(torch::kBFloat16)));
}

}  // namespace
}  // namespace distill
