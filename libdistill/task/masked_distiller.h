// The loss of DistilBERT as a callable (Sanh et al. 2019, "DistilBERT, a distilled version of BERT", section 2): on
// masked text, the student's words and states are to be the teacher's, and the masked words the true ones.
//
//   DISTILL_ASSIGN_OR_RETURN(auto distiller, MaskedDistiller::Create(teacher, student, {.temperature = 2}));
//   LossSum sum = distiller(batch, tokens_per_label);      in a MicroStep of a StepSource (train/trainer.h)
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/task/distiller.h"

namespace distill {

// A token's loss: kl_weight * T^2 * KL(teacher, student) + cosine_weight * (1 - cos(states)), and mlm_weight * CE, as a
// mean over the tokens that have a label. The defaults are those of DistilBERT's training.
struct MaskedDistillerOptions {
  double temperature = 2.0;
  double kl_weight = 5.0;
  double mlm_weight = 2.0;
  double cosine_weight = 1.0;  // above 0: both models' states have the same size
  int64_t chunk_tokens = 256;  // as in DistillationOptions
};

class MaskedDistiller {
 public:
  // InvalidArgument: a weight below 0, both of the logits' weights 0, states of different sizes, and what
  // Distiller::Create says of temperature, vocabularies and tokenizers.
  [[nodiscard]] static absl::StatusOr<MaskedDistiller> Create(std::shared_ptr<LanguageModel> teacher,
                                                              std::shared_ptr<LanguageModel> student,
                                                              const MaskedDistillerOptions& options);
  // labels[i] is the word that input_ids[i] hides, or kIgnoreLabel. The loss is taken at every token but padding, and
  // LossSum::count is their number. `tokens_per_label`: tokens of the whole step over its labels, which makes a mean
  // over labels of the cross-entropies' sum once the trainer has divided by the tokens; of this batch, for a mean of
  // the batch's own. Sums: "kl" with its T^2, "mlm", "cosine", all without their weights. Where gradients are taken,
  // what has the weight 0 is left out, and the teacher with it where nothing asks for it and it is not shared out.
  // `gradient_scale`: Trainer::gradient_scale().
  LossSum operator()(const TokenBatch& batch, double tokens_per_label, double gradient_scale = 1.0) const;
  // Of the same models: the student's folder (SaveStudent), and its trained rows.
  const Distiller& distiller() const { return distiller_; }
  // What must be the same on every rank, by name.
  std::vector<std::pair<std::string, std::string>> Fingerprint() const;

 private:
  MaskedDistiller(std::shared_ptr<LanguageModel> teacher, std::shared_ptr<LanguageModel> student, Distiller distiller,
                  const MaskedDistillerOptions& options)
      : teacher_(std::move(teacher)),
        student_(std::move(student)),
        distiller_(std::move(distiller)),
        options_(options) {}

  std::shared_ptr<LanguageModel> teacher_, student_;
  Distiller distiller_;
  MaskedDistillerOptions options_;
};

}  // namespace distill
