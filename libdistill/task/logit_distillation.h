// The objective of logit distillation: the teacher without gradients, the student with, and the loss that joins them
// (loss/distillation_loss.h). Distiller (task/distiller.h) trains with it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/token_batch.h"
#include "libdistill/loss/distillation_loss.h"
#include "libdistill/nn/language_model.h"
#include "libdistill/nn/state_projections.h"
#include "libdistill/task/objective.h"
#include "libdistill/task/teacher.h"

namespace distill {

class LogitDistillation : public Objective<TokenBatch> {
 public:
  // `teacher` may be null when alpha is 0: training on labels alone. InvalidArgument: temperature <= 0, alpha or beta
  // outside [0, 1], a vocabulary that the smaller head does not cover. Where models came from folders with a tokenizer:
  // the tokenizers of both must be the same (the first token that differs is named), and each head must cover it.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<LogitDistillation>> Create(std::shared_ptr<Teacher> teacher,
                                                                                 std::shared_ptr<LanguageModel> student,
                                                                                 const DistillationOptions& options);
  // Of a model that is a teacher by itself (LiveTeacher).
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<LogitDistillation>> CreateLive(
      std::shared_ptr<LanguageModel> teacher, std::shared_ptr<LanguageModel> student,
      const DistillationOptions& options) {
    return Create(LiveTeacher(std::move(teacher)), std::move(student), options);
  }

  // With hidden_weight the student has projections of its states from then on (nn/state_projections.h), which are
  // trained with it: make the trainer after this.
  //
  // One term, "loss", over the tokens that have a label; with hidden_weight two, "logits", the same, and "hidden", the
  // mean over the pairs of layers. Reported besides: "ce" and, with a teacher, the divergence
  // with its T^2, by the name that its option has ("kl", "topk_kl", ...; Jensen-Shannon: "jsd"). Where gradients are
  // taken and alpha is 0 at every step the teacher is not asked, unless it must be (Teacher::must_be_asked): there is
  // then no divergence.
  std::vector<TermWeight> LossTerms() const override;
  std::vector<std::string> Reported() const override;
  std::vector<int64_t> Counts(const TokenBatch& batch) const override {
    return std::vector<int64_t>(LossTerms().size(), batch.num_loss_tokens());
  }
  int64_t Tokens(const TokenBatch& batch) const override { return batch.num_tokens(); }
  void Prepare(TokenBatch& batch, const c10::Stream* copies) const override;
  Losses Forward(const TokenBatch& batch, const PassScale& scale) const override;

  // Rows of the student's head that take part: options.vocabulary, or else the smaller head's.
  int64_t vocabulary() const { return options_.vocabulary; }
  // The parameters of `module`, the student or what contains it, with a row for each token and more rows than take part
  // (its head's weight and bias, its embedding): name, and how many rows are to be trained.
  std::map<std::string, int64_t> TrainedRows(const torch::nn::Module& module) const override;
  // Where `module` is the student itself: the student as a folder that loads again (LanguageModel::Save), weights in
  // their type, tokenizer files of the student's own folder, or of the teacher's where the student's has none.
  [[nodiscard]] absl::Status SaveModel(const torch::nn::Module& module, const std::string& folder) const override;
  bool saves_in_order() const override { return student_->saves_in_order(); }
  bool losses_are_final() const override { return true; }
  NamedBytes HeldMemory(c10::DeviceType type) const override {
    return teacher_ == nullptr ? NamedBytes() : NamedBytes{{kTeacherWeights, teacher_->WeightBytes(type)}};
  }
  [[nodiscard]] absl::StatusOr<Fields> Fingerprint() const override;

  const std::shared_ptr<Teacher>& teacher() const { return teacher_; }  // null: labels alone
  LanguageModel& student() const { return *student_; }

 private:
  LogitDistillation(std::shared_ptr<Teacher> teacher, std::shared_ptr<LanguageModel> student,
                    const DistillationOptions& options)
      : teacher_(std::move(teacher)), student_(std::move(student)), options_(options) {}
  [[nodiscard]] absl::Status MatchStates();
  torch::Tensor HiddenLoss(const LayerStates& states, const TeacherAnswer& answer) const;
  std::string DivergenceName() const;
  bool AsksTeacher(bool trains) const;
  // Once, of the first batch: a warning where the teacher gives its words no better than chance does, as one of zeros
  // or of random weights.
  void JudgeTeacher(const DistillationInputs& inputs, int64_t count) const;

  const std::shared_ptr<Teacher> teacher_;
  const std::shared_ptr<LanguageModel> student_;
  const DistillationOptions options_;
  std::vector<int64_t> student_layers_, teacher_layers_;  // side by side; empty: no states are compared
  std::shared_ptr<StateProjections> projections_;         // one for each
  mutable bool judged_teacher_ = false;
};

// A model whose loss is above this share of the logarithm of its vocabulary knows no more than chance.
inline constexpr double kShareOfChance = 0.97;

// Inside task/ only. Of what the loss of logits is given, the student's side but its states: head, scaling of logits,
// and, where gradients are taken, what its sink offers for the head's gradient.
void SetStudentHead(const LanguageModel& student, DistillationInputs& inputs);
// What a teacher answered, with words, on the device of inputs.labels. Throws StatusError, InvalidArgument, where there
// are none.
void SetTeacherWords(const TeacherAnswer& answer, DistillationInputs& inputs);

}  // namespace distill
