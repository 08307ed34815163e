// What adapters a model gets (nn/adapters.h). Sees no torch.
#pragma once

#include <cstdint>
#include <string>

#include "libdistill/core/describe.h"

namespace distill {

// What a model with adapters is saved as: with W + scale * B A in place of W, for any program that reads the family; or
// the adapters alone, in a folder that PEFT reads over the model that they were made for.
enum class AdapterForm { kMerged, kAdapter };
constexpr EnumNames<AdapterForm, 2> NamesOf(AdapterForm) {
  return {{{"merged", AdapterForm::kMerged}, {"adapter", AdapterForm::kAdapter}}};
}

struct AdapterOptions {
  int64_t rank = 16;
  double alpha = 32;
  double dropout = 0.05;  // of what goes into A, in training; on CPUs no mask and no second copy of it is kept
  bool is_rank_stabilised = false;  // scale = alpha / sqrt(r) (Kalajdzievski 2023, arXiv 2312.03732), not alpha / r
  // Names of matrices, or the ends of names after a dot, with commas: "q_proj,layers.3.mlp.down_proj". "all-linear":
  // all but the head. Empty: those of PEFT for decoders, q_proj and v_proj (qkv_proj where they are one).
  std::string targets = {};
  AdapterForm form = AdapterForm::kMerged;
  std::string base_model = {};  // in the folder of adapters: what they were made for
  uint64_t seed = 42;
};

template <class V>
void Describe(V& v, AdapterOptions& o) {
  v.Field("lora_r", o.rank, Within(1, 1 << 16), "rank of adapters: rows of A, columns of B").Alias("lora_rank");
  v.Field("lora_alpha", o.alpha, AtLeast(0), "adapters count lora_alpha / lora_r times");
  v.Field("lora_dropout", o.dropout, FromUpTo(0, 1), "share of an adapter's input that is dropped in training");
  v.Field("lora_target_modules", o.targets,
          "matrices that have adapters, by name or its end, with commas or as a list; all-linear: all but the head; "
          "empty: q_proj and v_proj")
      .TakesList();
  v.Field("use_rslora", o.is_rank_stabilised, "adapters count lora_alpha / sqrt(lora_r) times");
  v.Field("lora_save", o.form,
          "merged: the student with its adapters in its weights; adapter: a folder that PEFT reads over student_model");
}

}  // namespace distill
