#include "libdistill/loss/distillation_options.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr char kSkewed[] = "skewed_kl and skewed_reverse_kl";

bool IsSkewed(Divergence divergence) {
  return divergence == Divergence::kSkewedKl || divergence == Divergence::kSkewedReverseKl;
}

absl::Status NotUsed(const char* option, Divergence chosen, const char* users) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": the divergence ", FieldText(chosen), " does not use it; it is of ", users));
}

// The divergence is the same at every step, and so is the name that it is logged by.
absl::Status CheckSchedules(const DistillationOptions& options, Divergence chosen) {
  DISTILL_RETURN_IF_ERROR(CheckWeightSchedule("alpha", options.alpha_schedule));
  DISTILL_RETURN_IF_ERROR(CheckWeightSchedule("temperature", options.temperature_schedule));
  DISTILL_RETURN_IF_ERROR(CheckWeightSchedule("beta", options.beta_schedule));
  DISTILL_RETURN_IF_ERROR(CheckWeightSchedule("skew", options.skew_schedule));
  DISTILL_RETURN_IF_ERROR(CheckWeightSchedule("hidden_weight", options.hidden_weight_schedule));
  if (options.beta_schedule.end.has_value() && chosen != Divergence::kJensenShannon) {
    return NotUsed("beta_schedule", chosen, "jensen_shannon, whose beta stays above 0 and below 1");
  }
  if (options.skew_schedule.end.has_value() && !IsSkewed(chosen)) return NotUsed("skew_schedule", chosen, kSkewed);
  if (options.temperature_schedule.end.has_value() && chosen == Divergence::kMse) {
    return NotUsed("temperature_schedule", chosen, "all others");
  }
  return absl::OkStatus();
}

}  // namespace

Divergence ChosenDivergence(const DistillationOptions& options) {
  if (options.divergence.has_value()) return *options.divergence;
  if (options.beta == 0) return Divergence::kForwardKl;
  return options.beta == 1 ? Divergence::kReverseKl : Divergence::kJensenShannon;
}

absl::Status CheckDivergence(const DistillationOptions& options) {
  const Divergence chosen = ChosenDivergence(options);
  const bool is_between = options.beta > 0 && options.beta < 1;
  if (chosen == Divergence::kJensenShannon && !is_between) {
    return absl::InvalidArgumentError(
        absl::StrCat("divergence jensen_shannon needs a beta above 0 and below 1, as 0.5, "
                     "and beta is ",
                     options.beta));
  }
  const bool agrees = options.beta == 0 || (options.beta == 1 && chosen == Divergence::kReverseKl);
  if (chosen != Divergence::kJensenShannon && !agrees) return NotUsed("beta", chosen, "jensen_shannon");
  if (options.skew.has_value() && !IsSkewed(chosen)) return NotUsed("skew", chosen, kSkewed);
  if (options.top_k_logits.has_value() && chosen != Divergence::kTopKKl) {
    return NotUsed("top_k_logits", chosen, "topk_kl");
  }
  return CheckSchedules(options, chosen);
}

DistillationOptions OptionsAt(const DistillationOptions& options, double progress) {
  DistillationOptions now = options;
  now.alpha = WeightAt(options.alpha, options.alpha_schedule, progress);
  now.temperature = WeightAt(options.temperature, options.temperature_schedule, progress);
  now.beta = WeightAt(options.beta, options.beta_schedule, progress);
  if (options.skew_schedule.end.has_value()) {
    now.skew = WeightAt(options.skew.value_or(kDefaultSkew), options.skew_schedule, progress);
  }
  now.alpha_schedule = now.temperature_schedule = now.beta_schedule = now.skew_schedule = {};
  return now;
}

}  // namespace distill
