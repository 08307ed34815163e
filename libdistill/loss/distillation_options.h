// The options of the distillation loss (loss/distillation_loss.h).
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "libdistill/core/describe.h"
#include "libdistill/loss/divergence.h"

namespace distill {

constexpr EnumNames<Divergence, 8> NamesOf(Divergence) {
  return {{{"kl", Divergence::kForwardKl},
           {"reverse_kl", Divergence::kReverseKl},
           {"jensen_shannon", Divergence::kJensenShannon},
           {"topk_kl", Divergence::kTopKKl},
           {"skewed_kl", Divergence::kSkewedKl},
           {"skewed_reverse_kl", Divergence::kSkewedReverseKl},
           {"total_variation", Divergence::kTotalVariation},
           {"mse", Divergence::kMse}}};
}

struct DistillationOptions {
  double temperature = 2.0;
  double alpha = 0.5;
  // 0: KL(teacher || student). 1: KL(student || teacher). Between, with m = beta * teacher + (1 - beta) * student:
  // beta * KL(teacher || m) + (1 - beta) * KL(student || m).
  double beta = 0.0;
  // Unset: the one that beta means. Set: beta is Jensen-Shannon's alone.
  std::optional<Divergence> divergence = std::nullopt;
  // Of the skewed ones, the share of the first distribution in the mixture: the teacher's of skewed_kl, the student's
  // of skewed_reverse_kl. Unset: kDefaultSkew.
  std::optional<double> skew = std::nullopt;
  // Of topk_kl: how many of the teacher's likeliest tokens are compared one by one. Unset: kDefaultTopK.
  std::optional<int64_t> top_k_logits = std::nullopt;
  // Tokens whose logits are alive at one time, at most; fewer where these would be large (ChunkTokens, loss_memory.h).
  int64_t chunk_tokens = 256;
  // Both softmaxes run over the first `vocabulary` rows of the heads; 0: the smaller head's rows.
  int64_t vocabulary = 0;
  // About what the backward pass will multiply the loss by. The chunked loss takes its gradients along in the type of
  // the student, times this: with float16 what would be too small is then kept, and what is too large becomes infinite,
  // as in the rest of the backward pass. Nothing else follows from it: what backward() gives is the same for any scale.
  double gradient_scale = 1.0;
};

inline constexpr double kDefaultSkew = 0.1;  // that of Ko et al. 2024
inline constexpr int64_t kDefaultTopK = 64;

// What `options` ask for where there is a teacher: never kNone.
Divergence ChosenDivergence(const DistillationOptions& options);

// InvalidArgument: an option that the chosen divergence does not use, or one that it lacks.
[[nodiscard]] absl::Status CheckDivergence(const DistillationOptions& options);

template <class V>
void Describe(V& v, DistillationOptions& o) {
  v.Group("Models and loss");
  v.Field("temperature", o.temperature, AtLeast(0.01), "of both distributions of the divergence")
      .Alias("tau", "kd_temperature", "distill_temperature", "distillation_temperature");
  v.Field("alpha", o.alpha, Within(0, 1), "share of the divergence; the rest is cross-entropy")
      .Similar("kd_ratio", "kd_weight", "alpha_kd", "distill_weight", "distillation_weight");
  v.Field("beta", o.beta, Within(0, 1), "0: KL(teacher, student); 1: KL(student, teacher); between: Jensen-Shannon");
  v.Field("divergence", o.divergence, "between teacher and student; empty: what beta says")
      .Similar("distillation_loss", "kd_loss", "loss_function", "divergence_type");
  v.Field("skew", o.skew, FieldLimits{.low = 0, .high = 1, .excludes_low = true, .excludes_high = true},
          "of the skewed divergences, the share of their first distribution in the mixture; 0.1 if not given");
  v.Field("top_k_logits", o.top_k_logits, Within(1, kMostTopK),
          "of topk_kl, the teacher's likeliest tokens that are compared one by one; 64 if not given")
      .Similar("loss_top_k");
  v.Field("chunk_tokens", o.chunk_tokens, AtLeast(1), "tokens whose logits are in memory at one time, at most");
  v.Field("vocabulary", o.vocabulary, "tokens that take part; 0: all that the smaller head has").InCodeOnly();
  v.Field("gradient_scale", o.gradient_scale, Above(0), "what the backward pass multiplies the loss by").InCodeOnly();
  v.Together([&o] { return CheckDivergence(o); });
}

}  // namespace distill
