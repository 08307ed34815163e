// The options of the distillation loss (loss/distillation_loss.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "libdistill/core/describe.h"
#include "libdistill/loss/divergence.h"
#include "libdistill/loss/weight_schedule.h"

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
  // Above 0: states within the student are to be the teacher's, after a projection that is learnt (loss/state_match.h):
  // the weight of the mean squared difference, which the loss itself does not look at (task/logit_distillation.h).
  double hidden_weight = 0;
  std::string layer_map = "";  // "STUDENT:TEACHER,...", as task/layer_map.h reads it
  // Over the steps of a run; the loss itself looks at none of them, but at what OptionsAt makes of them.
  WeightSchedule alpha_schedule = {}, temperature_schedule = {}, beta_schedule = {}, skew_schedule = {};
  WeightSchedule hidden_weight_schedule = {};  // of the term, which the loss does not look at either
  // Tokens whose logits are alive at one time, at most; on CPUs fewer where these would be large. 0: chosen out of
  // shapes, device and its memory (ChunkTokens, loss_memory.h).
  int64_t chunk_tokens = 0;
  // Both softmaxes run over the first `vocabulary` rows of the heads; 0: the smaller head's rows.
  int64_t vocabulary = 0;
  // About what the backward pass will multiply the loss by. The chunked loss takes its gradients along in the type of
  // the student, times this: with float16 what would be too small is then kept, and what is too large becomes infinite,
  // as in the rest of the backward pass. Nothing else follows from it: what backward() gives is the same for any scale.
  double gradient_scale = 1.0;
};

inline constexpr char kChunkTokensHelp[] =
    "tokens whose logits are in memory at one time, at most; 0: chosen out of shapes, device and its memory";
inline constexpr double kDefaultSkew = 0.1;  // that of Ko et al. 2024
inline constexpr int64_t kDefaultTopK = 64;

// What `options` ask for where there is a teacher: never kNone.
Divergence ChosenDivergence(const DistillationOptions& options);

// InvalidArgument: an option that the chosen divergence does not use, or one that it lacks.
[[nodiscard]] absl::Status CheckDivergence(const DistillationOptions& options);

// The weights at `progress` of the run, from 0 for the first step to 1 for the last, and no schedules.
DistillationOptions OptionsAt(const DistillationOptions& options, double progress);

// Whether no step has a divergence.
inline bool IsOfLabelsAlone(const DistillationOptions& o) {
  return o.alpha == 0 && o.alpha_schedule.end.value_or(0) == 0;
}

template <class V>
void Describe(V& v, DistillationOptions& o) {
  v.Group("Models and loss");
  constexpr FieldLimits kTemperature = AtLeast(0.01), kShare = Within(0, 1);
  constexpr FieldLimits kInside = {.low = 0, .high = 1, .excludes_low = true, .excludes_high = true};
  constexpr const char* kShape = "how it goes from that value, at the first step, to its end";
  constexpr const char* kEnd = "its value at the last step, and in evaluations";
  v.Field("temperature", o.temperature, kTemperature, "of both distributions of the divergence")
      .Alias("tau", "kd_temperature", "distill_temperature", "distillation_temperature");
  v.Field("temperature_schedule", o.temperature_schedule.shape, kShape);
  v.Field("temperature_end", o.temperature_schedule.end, kTemperature, kEnd);
  v.Field("alpha", o.alpha, kShare, "share of the divergence; the rest is cross-entropy")
      .Similar("kd_ratio", "kd_weight", "alpha_kd", "distill_weight", "distillation_weight");
  v.Field("alpha_schedule", o.alpha_schedule.shape, kShape);
  v.Field("alpha_end", o.alpha_schedule.end, kShare, kEnd);
  v.Field("beta", o.beta, kShare, "0: KL(teacher, student); 1: KL(student, teacher); between: Jensen-Shannon");
  v.Field("beta_schedule", o.beta_schedule.shape, kShape);
  v.Field("beta_end", o.beta_schedule.end, kInside, kEnd);
  v.Field("divergence", o.divergence, "between teacher and student; empty: what beta says")
      .Similar("distillation_loss", "kd_loss", "loss_function", "divergence_type");
  v.Field("skew", o.skew, kInside,
          "of the skewed divergences, the share of their first distribution in the mixture; 0.1 if not given");
  v.Field("skew_schedule", o.skew_schedule.shape, kShape);
  v.Field("skew_end", o.skew_schedule.end, kInside, kEnd);
  v.Field("top_k_logits", o.top_k_logits, Within(1, kMostTopK),
          "of topk_kl, the teacher's likeliest tokens that are compared one by one; 64 if not given")
      .Similar("loss_top_k");
  v.Field("hidden_weight", o.hidden_weight, AtLeast(0),
          "of the squared difference between states within both models, after a projection that is trained; 0: none")
      .Similar("hidden_states_weight", "hidden_loss_weight", "feature_weight");
  v.Field("hidden_weight_schedule", o.hidden_weight_schedule.shape, kShape);
  v.Field("hidden_weight_end", o.hidden_weight_schedule.end, AtLeast(0), kEnd);
  v.Field(
       "layer_map", o.layer_map,
       "which layers' states are compared: STUDENT:TEACHER,..., 0 for the embeddings; empty: all of the student's with "
       "those as high in the teacher")
      .Similar("layers_map");
  v.Field("chunk_tokens", o.chunk_tokens, AtLeast(0), kChunkTokensHelp);
  v.Field("vocabulary", o.vocabulary, "tokens that take part; 0: all that the smaller head has").InCodeOnly();
  v.Field("gradient_scale", o.gradient_scale, Above(0), "what the backward pass multiplies the loss by").InCodeOnly();
  v.Together([&o] { return CheckDivergence(o); });
  v.Together([&o]() -> absl::Status {
    if (!o.hidden_weight_schedule.end.has_value() || o.hidden_weight > 0) return absl::OkStatus();
    return absl::InvalidArgumentError("hidden_weight_schedule begins at hidden_weight, and that is 0: begin above it");
  });
  v.Together([&o]() -> absl::Status {
    if (o.layer_map.empty() || o.hidden_weight > 0) return absl::OkStatus();
    return absl::InvalidArgumentError("layer_map says which states are compared, and hidden_weight is 0: none are");
  });
}

}  // namespace distill
