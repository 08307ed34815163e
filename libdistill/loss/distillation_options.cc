#include "libdistill/loss/distillation_options.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/field_text.h"

namespace distill {
namespace {

bool IsSkewed(Divergence divergence) {
  return divergence == Divergence::kSkewedKl || divergence == Divergence::kSkewedReverseKl;
}

absl::Status NotUsed(const char* option, Divergence chosen, const char* users) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": the divergence ", FieldText(chosen), " does not use it; it is of ", users));
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
  if (options.skew.has_value() && !IsSkewed(chosen)) {
    return NotUsed("skew", chosen, "skewed_kl and skewed_reverse_kl");
  }
  if (options.top_k_logits.has_value() && chosen != Divergence::kTopKKl) {
    return NotUsed("top_k_logits", chosen, "topk_kl");
  }
  return absl::OkStatus();
}

}  // namespace distill
