// The recipe's objective: cross-entropy of a review's class and, with a teacher, the divergence of the class
// probabilities; judged by accuracy, of which every held-out review counts once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libdistill/nn/encoder_heads.h"
#include "libdistill/task/device_batch.h"
#include "libdistill/task/objective.h"

namespace distill {

struct PolarityLoss {
  double alpha = 0;  // weight of the divergence; 1 - alpha is that of the labels
  double temperature = 1;
};

class PolarityObjective : public Objective<TensorBatch> {
 public:
  // `teacher` may be null; then alpha is 0. It is frozen, and on the student's device. `labels`: names of the classes.
  // `held_out_samples`: how many there are over all ranks. `tokenizer_folder`: whose files are saved with the model.
  PolarityObjective(std::shared_ptr<SequenceClassifier> student, std::shared_ptr<SequenceClassifier> teacher,
                    const PolarityLoss& loss, std::vector<std::string> labels, int64_t held_out_samples,
                    std::string tokenizer_folder);

  // "ce", and with a teacher "kl", T^2 times KL(teacher || student) of the class probabilities at temperature T
  // (Hinton, Vinyals, Dean 2015, section 2); both are means over rows. Batches: "ids" int32 [B, T] with "ids_lengths",
  // "label" int64 [B], and "token_types" where the model takes them.
  std::vector<TermWeight> LossTerms() const override;
  std::vector<int64_t> Counts(const TensorBatch& batch) const override;
  int64_t Tokens(const TensorBatch& batch) const override;
  void Prepare(TensorBatch& batch, const c10::Stream* copies) const override { batch.Load(copies); }
  Losses Forward(const TensorBatch& batch, const PassScale& scale) const override;

  // "accuracy"; of each class samples_NAME, predicted_NAME (by the model), and correct_NAME (by both).
  [[nodiscard]] absl::Status Evaluate(const TensorBatch& batch, Metrics& metrics) const override;
  [[nodiscard]] absl::StatusOr<MetricValues> Summarize(const MetricValues& means,
                                                       const Predictions& predictions) const override;

  NamedBytes HeldMemory(c10::DeviceType type) const override { return MemoryOfTeacher(teacher_.get(), type); }
  [[nodiscard]] absl::Status SaveModel(const torch::nn::Module& module, const std::string& folder) const override;
  [[nodiscard]] absl::StatusOr<Fields> Fingerprint() const override;

 private:
  Losses TermsOf(const torch::Tensor& logits, const TokenInput& input, const TensorBatch& batch) const;

  const std::shared_ptr<SequenceClassifier> student_, teacher_;
  const PolarityLoss loss_;
  const std::vector<std::string> labels_;
  const int64_t held_out_samples_;
  const std::string tokenizer_folder_;
};

}  // namespace distill
