#include "libdistill/optim/adamw_sweep.h"

#include <cmath>

#include "libdistill/core/check.h"
#include "libdistill/optim/adamw_table.h"

namespace distill {
namespace {

struct Choice {
  const char* name;
  AdamWFunction sweep;
};

Choice Choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return {"avx512", kAdamWAvx512};
  }
  // F16C came before AVX2, and every CPU that has this has that.
  if (__builtin_cpu_supports("avx2")) return {"avx2", kAdamWAvx2};
#endif
  return {"plain", kAdamWPlain};
}

const Choice& Chosen() {
  static const Choice choice = Choose();
  return choice;
}

}  // namespace

AdamWFactors FactorsOf(double beta1, double beta2, double epsilon, double weight_decay, double learning_rate,
                       double divisor, int64_t step) {
  AdamWFactors factors;
  factors.beta1 = static_cast<float>(beta1);
  factors.beta2 = static_cast<float>(beta2);
  factors.one_minus_beta1 = static_cast<float>(1 - beta1);
  factors.one_minus_beta2 = static_cast<float>(1 - beta2);
  factors.epsilon = static_cast<float>(epsilon);
  factors.gradient_scale = static_cast<float>(1 / divisor);
  const double t = static_cast<double>(step);
  factors.step_size = static_cast<float>(learning_rate / (1 - std::pow(beta1, t)));
  factors.inverse_root_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t)));
  factors.keep = static_cast<float>(1 - learning_rate * weight_decay);
  return factors;
}

void SweepAdamW(const AdamWRun& run, const AdamWFactors& factors) {
  DISTILL_CHECK(run.working == nullptr || run.working_type == DType::kBFloat16 || run.working_type == DType::kFloat16,
                "working copies are bfloat16 or float16");
  Chosen().sweep(run, factors);
}

const char* AdamWInstructionSet() { return Chosen().name; }

}  // namespace distill
