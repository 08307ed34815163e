// The objective of DistilBERT (Sanh et al. 2019, "DistilBERT, a distilled version of BERT", section 2): on masked text,
// the student's words and states are to be the teacher's, and the masked words the true ones. MaskedDistiller
// (task/distiller.h) trains with it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/core/describe.h"
#include "libdistill/task/logit_distillation.h"

namespace distill {

// The step's loss is  kl_weight * T^2 * KL(teacher, student) + cosine_weight * (1 - cos(states))  as means over tokens,
// plus  mlm_weight * CE  as a mean over the tokens that have a label. The defaults are those of DistilBERT's training.
struct MaskedDistillerOptions {
  double temperature = 2.0;
  double kl_weight = 5.0;
  double mlm_weight = 2.0;
  double cosine_weight = 1.0;  // above 0: both models' states have the same size
  int64_t chunk_tokens = 0;    // as in DistillationOptions
};

template <class V>
void Describe(V& v, MaskedDistillerOptions& o) {
  v.Group("Models and loss");
  v.Field("temperature", o.temperature, AtLeast(0.01), "of both distributions of the divergence");
  v.Field("kl_weight", o.kl_weight, AtLeast(0), "weight of the divergence of the words, which has temperature^2 in it")
      .Alias("alpha", "alpha_ce");
  v.Field("mlm_weight", o.mlm_weight, AtLeast(0), "weight of the masked words' cross-entropy")
      .Alias("beta", "alpha_mlm");
  v.Field("cosine_weight", o.cosine_weight, AtLeast(0), "weight of the angle between states")
      .Alias("gamma", "alpha_cos");
  v.Field("chunk_tokens", o.chunk_tokens, AtLeast(0), kChunkTokensHelp);
  v.Together([&o]() -> absl::Status {
    if (o.kl_weight + o.mlm_weight > 0) return absl::OkStatus();
    return absl::InvalidArgumentError("kl_weight and mlm_weight are both 0: nothing is asked of the student's words");
  });
}

class MaskedDistillation : public Objective<TokenBatch> {
 public:
  // `teacher` may be null where the divergence and the cosine weigh 0: masked language modelling alone.
  // InvalidArgument: a weight below 0, both of the logits' weights 0, states of different sizes, and what
  // LogitDistillation::Create says of temperature, vocabularies and tokenizers.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<MaskedDistillation>> Create(
      std::shared_ptr<Teacher> teacher, std::shared_ptr<LanguageModel> student, const MaskedDistillerOptions& options);

  // "kl" with its T^2 and "cosine" over all tokens but padding, "mlm" over those with a label: labels[i] is the word
  // that input_ids[i] hides, or kIgnoreLabel. Without a teacher, "mlm" alone, and without a weight no
  // "cosine". Where gradients are taken, what has the weight 0 is left out, and the teacher with it where nothing asks
  // for it. Evaluations have "perplexity" besides, of the masked words: the exponential of "mlm".
  std::vector<TermWeight> LossTerms() const override;
  std::vector<int64_t> Counts(const TokenBatch& batch) const override;
  int64_t Tokens(const TokenBatch& batch) const override { return batch.num_tokens(); }
  void Prepare(TokenBatch& batch, const c10::Stream* copies) const override;
  Losses Forward(const TokenBatch& batch, const PassScale& scale) const override;
  [[nodiscard]] absl::StatusOr<MetricValues> Summarize(const MetricValues& means,
                                                       const Predictions& predictions) const override;

  // As LogitDistillation's.
  std::map<std::string, int64_t> TrainedRows(const torch::nn::Module& module) const override {
    return logits_->TrainedRows(module);
  }
  [[nodiscard]] absl::Status SaveModel(const torch::nn::Module& module, const std::string& folder) const override {
    return logits_->SaveModel(module, folder);
  }
  bool saves_in_order() const override { return logits_->saves_in_order(); }
  NamedBytes HeldMemory(c10::DeviceType type) const override { return logits_->HeldMemory(type); }
  [[nodiscard]] absl::StatusOr<Fields> Fingerprint() const override;

 private:
  MaskedDistillation(std::shared_ptr<LogitDistillation> logits, const MaskedDistillerOptions& options)
      : logits_(std::move(logits)), options_(options) {}
  // Words alone are asked for where a label is.
  LossAt loss_at() const { return logits_->teacher() != nullptr ? LossAt::kTokens : LossAt::kLabels; }
  TeacherAnswer AskTeacher(const TokenBatch& batch, const TokenTensors& tensors, bool asks_words) const;

  const std::shared_ptr<LogitDistillation> logits_;  // of the same models
  const MaskedDistillerOptions options_;
};

}  // namespace distill
