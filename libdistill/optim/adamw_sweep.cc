#include "libdistill/optim/adamw_sweep.h"

#include <cmath>

#include "libdistill/core/check.h"
#include "libdistill/core/vectors.h"

namespace distill {

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
  static const AdamWFunction chosen = DISTILL_FOR_THIS_CPU(kAdamW);
  chosen(run, factors);
}

}  // namespace distill
