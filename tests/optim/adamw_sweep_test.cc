// The sweep against the formula in float64, and each CPU's loops against one another, bit by bit.
#include <cmath>
#include <cstring>

#include "libdistill/core/vectors.h"
#include "libdistill/optim/adamw_sweep.h"
#include "tests/optim/adamw_state.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

using testing::AdamWState;

AdamWFactors Factors(int64_t step) { return FactorsOf(0.9, 0.99, 1e-8, 0.1, 0.01, 3.0, step); }

std::vector<AdamWFunction> FunctionsOfThisCpu() {
  std::vector<AdamWFunction> functions = {kAdamWPlain};
#if defined(__x86_64__)
  if (VectorsOfThisCpu() >= Vectors::kAvx2) functions.push_back(kAdamWAvx2);
  if (VectorsOfThisCpu() == Vectors::kAvx512) functions.push_back(kAdamWAvx512);
#endif
  return functions;
}

TEST_CASE("the sweep makes the update of the paper") {
  for (const auto& [step, beta2] : {std::pair{1, 0.99}, {2, 0.99}, {1000, 0.99}, {1, 0.99999}}) {
    AdamWState before(1003, 4), after(1003, 4);
    SweepAdamW(after.run, FactorsOf(0.9, beta2, 1e-8, 0.1, 0.01, 3.0, step));
    for (size_t i = 0; i < before.master.size(); ++i) {
      const double g = before.gradient[i] / 3.0;
      const double m = 0.9 * before.exp_avg[i] + 0.1 * g;
      const double v = beta2 * before.exp_avg_sq[i] + (1 - beta2) * g * g;
      const double m_hat = m / (1 - std::pow(0.9, step)), v_hat = v / (1 - std::pow(beta2, step));
      const double expected = before.master[i] * (1 - 0.01 * 0.1) - 0.01 * m_hat / (std::sqrt(v_hat) + 1e-8);
      CHECK(after.exp_avg[i] == Approx(m).epsilon(1e-5).margin(1e-6));
      CHECK(after.exp_avg_sq[i] == Approx(v).epsilon(1e-5));
      CHECK(after.master[i] == Approx(expected).epsilon(1e-5).margin(1e-6));
    }
  }
}

TEST_CASE("every CPU's loops give the same bits, at any length and alignment") {
  for (const AdamWFunction function : FunctionsOfThisCpu()) {
    for (const DType working : {DType::kBFloat16, DType::kFloat16}) {
      for (int64_t count = 0; count <= 70; ++count) {
        for (const int64_t offset : {0, 1, 3}) {
          const bool has_working = count % 3 != 0;
          AdamWState plain(count, 7 + static_cast<uint32_t>(count), offset, has_working, working);
          AdamWState other(count, 7 + static_cast<uint32_t>(count), offset, has_working, working);
          kAdamWPlain(plain.run, Factors(5));
          function(other.run, Factors(5));
          INFO(NameOf(working) << ", " << count << " elements from " << offset);
          CHECK(plain.SameAs(other));
        }
      }
    }
  }
}

TEST_CASE("the working copy is the master to the nearest bfloat16, ties to even") {
  AdamWFactors still;  // no gradient, no decay, a step of 0: the master stays
  AdamWState state(6, 1);
  const std::vector<float> values = {1.0f, 1.00390625f, 1.01171875f, -3.14159f, 3.0e38f, 1e-40f};
  const std::vector<uint16_t> rounded = {0x3f80, 0x3f80, 0x3f82, 0xc049, 0x7f62, 0x0001};
  std::copy(values.begin(), values.end(), state.run.master);
  SweepAdamW(state.run, still);
  CHECK(std::vector<float>(state.run.master, state.run.master + 6) == values);
  CHECK(state.working == rounded);
}

TEST_CASE("without decay a master only moves with its moments") {
  AdamWState state(100, 2);
  state.run.decays = false;
  std::fill(state.exp_avg.begin(), state.exp_avg.end(), 0.0f);
  std::fill(state.gradient.begin(), state.gradient.end(), 0.0f);
  const std::vector<float> before = state.master;
  SweepAdamW(state.run, Factors(3));
  CHECK(state.master == before);
  state.run.decays = true;
  SweepAdamW(state.run, Factors(3));
  CHECK(state.master != before);
}

}  // namespace
}  // namespace distill
