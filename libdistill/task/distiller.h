// The loss of logit distillation as a callable: runs the teacher without gradients, the student with, and joins them.
//
//   DISTILL_ASSIGN_OR_RETURN(auto distiller, Distiller::Create(teacher, student, {.temperature = 2, .alpha = 0.5}));
//   trainer->Fit(sharder, distiller);
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/batch.h"
#include "libdistill/loss/distillation_loss.h"
#include "libdistill/nn/language_model.h"
#include "libdistill/task/step_source.h"

namespace distill {

class Distiller {
 public:
  // `teacher` may be null when alpha is 0: training on labels alone. InvalidArgument: temperature <= 0, alpha or beta
  // outside [0, 1], a vocabulary that the smaller head does not cover. Where models came from folders with a tokenizer:
  // the tokenizers of both must be the same (the first token that differs is named), and each head must cover it.
  [[nodiscard]] static absl::StatusOr<Distiller> Create(std::shared_ptr<LanguageModel> teacher,
                                                        std::shared_ptr<LanguageModel> student,
                                                        const DistillationOptions& options);
  // {loss, count} and the sums "ce" and, with a teacher, "kl" with its T^2 ("reverse_kl" where beta is 1, "jsd" where
  // it lies between 0 and 1). Where gradients are taken and alpha is 0 the teacher is not asked, unless its weights are
  // shared out (ShardFrozen): there is then no divergence among the sums.
  // `gradient_scale`: as in DistillationOptions; Trainer::gradient_scale() in a StepSource of one's own.
  LossSum operator()(const TokenBatch& batch, double gradient_scale = 1.0) const;
  // Rows of the student's head that take part: options.vocabulary, or else the smaller head's.
  int64_t vocabulary() const;
  // The parameters of `module`, the student or what contains it, with a row for each token and more rows than take part
  // (its head's weight and bias, its embedding): name, and how many rows are to be trained.
  std::map<std::string, int64_t> TrainedRows(const torch::nn::Module& module) const;
  // The student as a folder that loads again (LanguageModel::Save): weights in their type, tokenizer files of the
  // student's own folder, or of the teacher's where the student's has none.
  [[nodiscard]] absl::Status SaveStudent(const std::string& folder) const;
  // Whether that reads weights one after the other (LanguageModel::saves_in_turn).
  bool SavesInTurn() const { return student_->saves_in_turn(); }
  bool IsStudent(const torch::nn::Module& module) const { return student_.get() == &module; }
  // What must be the same on every rank, by name.
  std::vector<std::pair<std::string, std::string>> Fingerprint() const;

 private:
  Distiller() = default;
  std::string DivergenceName() const;
  bool AsksTeacher() const;
  std::shared_ptr<LanguageModel> teacher_;
  std::shared_ptr<LanguageModel> student_;
  DistillationOptions options_;
};

}  // namespace distill
