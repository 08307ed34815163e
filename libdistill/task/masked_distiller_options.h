// The options of a MaskedDistiller (task/distiller.h).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "libdistill/core/describe.h"

namespace distill {

// The step's loss is  kl_weight * T^2 * KL(teacher, student) + cosine_weight * (1 - cos(states))  as means over tokens,
// plus  mlm_weight * CE  as a mean over the tokens that have a label. The defaults are those of DistilBERT's training.
struct MaskedDistillerOptions {
  double temperature = 2.0;
  double kl_weight = 5.0;
  double mlm_weight = 2.0;
  double cosine_weight = 1.0;  // above 0: both models' states have the same size
  int64_t chunk_tokens = 256;  // as in DistillationOptions
};

template <class V>
void Describe(V& v, MaskedDistillerOptions& o) {
  v.Group("Models and loss");
  v.Field("temperature", o.temperature, Above(0), "of both distributions of the divergence");
  v.Field("kl_weight", o.kl_weight, AtLeast(0), "weight of the divergence of the words").Alias("alpha_ce");
  v.Field("mlm_weight", o.mlm_weight, AtLeast(0), "weight of the masked words' cross-entropy").Alias("alpha_mlm");
  v.Field("cosine_weight", o.cosine_weight, AtLeast(0), "weight of the angle between states").Alias("alpha_cos");
  v.Field("chunk_tokens", o.chunk_tokens, AtLeast(1), "tokens whose logits are in memory at one time, at most");
  v.Together([&o]() -> absl::Status {
    if (o.kl_weight + o.mlm_weight > 0) return absl::OkStatus();
    return absl::InvalidArgumentError("kl_weight and mlm_weight are both 0: nothing is asked of the student's words");
  });
}

}  // namespace distill
