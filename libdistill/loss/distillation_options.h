// The options of the distillation loss (loss/distillation_loss.h).
#pragma once

#include <cstdint>

#include "libdistill/core/describe.h"

namespace distill {

struct DistillationOptions {
  double temperature = 2.0;
  double alpha = 0.5;
  // 0: KL(teacher || student). 1: KL(student || teacher). Between, with m = beta * teacher + (1 - beta) * student:
  // beta * KL(teacher || m) + (1 - beta) * KL(student || m).
  double beta = 0.0;
  // Tokens whose logits are alive at one time, at most; fewer where these would be large (ChunkTokens, loss_memory.h).
  int64_t chunk_tokens = 256;
  // Both softmaxes run over the first `vocabulary` rows of the heads; 0: the smaller head's rows.
  int64_t vocabulary = 0;
  // About what the backward pass will multiply the loss by. The chunked loss takes its gradients along in the type of
  // the student, times this: with float16 what would be too small is then kept, and what is too large becomes infinite,
  // as in the rest of the backward pass. Nothing else follows from it: what backward() gives is the same for any scale.
  double gradient_scale = 1.0;
};

template <class V>
void Describe(V& v, DistillationOptions& o) {
  v.Group("Models and loss");
  v.Field("temperature", o.temperature, AtLeast(0.01), "of both distributions of the divergence")
      .Alias("tau", "kd_temperature", "distill_temperature", "distillation_temperature");
  v.Field("alpha", o.alpha, Within(0, 1), "share of the divergence; the rest is cross-entropy")
      .Similar("kd_ratio", "kd_weight", "alpha_kd", "distill_weight", "distillation_weight");
  v.Field("beta", o.beta, Within(0, 1), "0: KL(teacher, student); 1: KL(student, teacher); between: Jensen-Shannon");
  v.Field("chunk_tokens", o.chunk_tokens, AtLeast(1), "tokens whose logits are in memory at one time, at most");
  v.Field("vocabulary", o.vocabulary, "tokens that take part; 0: all that the smaller head has").InCodeOnly();
  v.Field("gradient_scale", o.gradient_scale, Above(0), "what the backward pass multiplies the loss by").InCodeOnly();
}

}  // namespace distill
