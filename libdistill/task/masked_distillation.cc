#include "libdistill/task/masked_distillation.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "libdistill/core/description.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/loss/distillation_loss.h"
#include "libdistill/task/device_batch.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

// The order of the loss terms, where there is a teacher.
enum Term : size_t { kKl, kMlm, kCosine };

absl::Status CheckTeacher(const Teacher* teacher, const MaskedDistillerOptions& options) {
  if (teacher != nullptr || (options.kl_weight == 0 && options.cosine_weight == 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("kl_weight (alpha) is ", options.kl_weight, " and cosine_weight (gamma) ", options.cosine_weight,
                   ", but there is no teacher: set both to 0 to train on masked words alone"));
}

absl::Status CheckStates(int64_t of_teacher, int64_t of_student) {
  if (of_teacher == of_student) return absl::OkStatus();
  if (of_teacher == 0) {
    return absl::InvalidArgumentError(
        "cosine_weight: the teacher answers without states (Teacher::hidden_size); set it to 0");
  }
  return absl::InvalidArgumentError(absl::StrCat("cosine_weight: the teacher's states have ", of_teacher,
                                                 " numbers, the student's ", of_student,
                                                 "; set it to 0, or choose a student of the teacher's width"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<MaskedDistillation>> MaskedDistillation::Create(std::shared_ptr<Teacher> teacher,
                                                                               std::shared_ptr<LanguageModel> student,
                                                                               const MaskedDistillerOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckOptions(options));
  DISTILL_RETURN_IF_ERROR(CheckTeacher(teacher.get(), options));
  DistillationOptions of_logits = {.temperature = options.temperature, .chunk_tokens = options.chunk_tokens};
  if (teacher == nullptr) of_logits.alpha = 0;
  const int64_t of_teacher = teacher == nullptr ? 0 : teacher->hidden_size();
  DISTILL_ASSIGN_OR_RETURN(auto logits, LogitDistillation::Create(std::move(teacher), std::move(student), of_logits));
  if (options.cosine_weight > 0) {
    DISTILL_RETURN_IF_ERROR(CheckStates(of_teacher, logits->student().head_weight().size(1)));
  }
  return std::shared_ptr<MaskedDistillation>(new MaskedDistillation(std::move(logits), options));
}

std::vector<TermWeight> MaskedDistillation::LossTerms() const {
  if (logits_->teacher() == nullptr) return {{"mlm", options_.mlm_weight}};
  std::vector<TermWeight> terms = {{"kl", options_.kl_weight}, {"mlm", options_.mlm_weight}};
  if (options_.cosine_weight > 0) terms.push_back({"cosine", options_.cosine_weight});
  return terms;
}

std::vector<int64_t> MaskedDistillation::Counts(const TokenBatch& batch) const {
  if (logits_->teacher() == nullptr) return {batch.num_loss_tokens()};
  std::vector<int64_t> counts = {batch.num_tokens(), batch.num_loss_tokens()};
  if (options_.cosine_weight > 0) counts.push_back(batch.num_tokens());
  return counts;
}

void MaskedDistillation::Prepare(TokenBatch& batch, const c10::Stream* copies) const {
  if (copies != nullptr && CountsAnything(Counts(batch))) batch.sent = Send(batch, *copies, loss_at());
}

Losses MaskedDistillation::Forward(const TokenBatch& batch, const PassScale& scale) const {
  const LanguageModel& head = logits_->student();
  const TokenTensors tensors = ToTensors(batch, head.head_weight().device(), loss_at());
  const int64_t tokens = tensors.positions.size(0);
  if (tokens == 0) return {};
  DistillationInputs inputs;
  inputs.labels = tensors.labels;
  const bool has_teacher = logits_->teacher() != nullptr;
  const bool asks_words = has_teacher && (options_.kl_weight > 0 || !torch::GradMode::is_enabled());
  const TeacherAnswer answer = AskTeacher(batch, tensors, asks_words);
  if (asks_words) SetTeacherWords(answer, inputs);
  const torch::Tensor states = logits_->student().HiddenAt(tensors.input, tensors.positions);
  inputs.student_hidden = head.HeadInput(states);
  SetStudentHead(head, inputs);
  // The two losses of the logits, as shares of their sum. Words of weight 0 are left out of it.
  const double of_kl = asks_words ? scale.factor(kKl) : 0,
               of_ce = scale.factor(has_teacher ? static_cast<size_t>(kMlm) : 0), of_logits = of_kl + of_ce;
  // What the backward pass multiplies it by, to the bit.
  const double incoming = of_logits > 0 ? static_cast<float>(of_logits) * scale.gradient_scale : scale.gradient_scale;
  const DistillationSums logits = DistillationLoss(inputs, {.temperature = options_.temperature,
                                                            .alpha = of_logits > 0 ? of_kl / of_logits : 0,
                                                            .chunk_tokens = options_.chunk_tokens,
                                                            .vocabulary = logits_->vocabulary(),
                                                            .gradient_scale = incoming});
  Losses losses = {{"mlm", logits.ce, batch.num_loss_tokens()}};
  if (asks_words) losses.terms.push_back({"kl", logits.divergence, tokens});
  losses.total = logits.loss * of_logits;
  if (options_.cosine_weight > 0) {
    TORCH_CHECK_VALUE(answer.states.defined(), "cosine_weight wants states, and the teacher answered without");
    const torch::Tensor cosine = CosineLoss(states, answer.states.to(states.device()));
    losses.total = losses.total + cosine * scale.factor(kCosine);
    losses.terms.push_back({"cosine", cosine, tokens});
  }
  return losses;
}

TeacherAnswer MaskedDistillation::AskTeacher(const TokenBatch& batch, const TokenTensors& tensors,
                                             bool asks_words) const {
  Teacher* const teacher = logits_->teacher().get();
  const bool is_asked = teacher != nullptr && (asks_words || options_.cosine_weight > 0 || teacher->must_be_asked());
  return is_asked ? OrThrow(teacher->Ask(batch, tensors, {.words = asks_words})) : TeacherAnswer();
}

absl::StatusOr<MetricValues> MaskedDistillation::Summarize(const MetricValues& means,
                                                           const Predictions& predictions) const {
  DISTILL_ASSIGN_OR_RETURN(MetricValues values, Objective<TokenBatch>::Summarize(means, predictions));
  if (const auto mlm = means.find("mlm"); mlm != means.end()) values["perplexity"] = std::exp(mlm->second);
  return values;
}

absl::StatusOr<Fields> MaskedDistillation::Fingerprint() const {
  FieldValues fields = ValuesOf(options_);
  fields.emplace_back("vocabulary", absl::StrCat(logits_->vocabulary()));
  DISTILL_ASSIGN_OR_RETURN(const Fields of_teacher, FingerprintOf(logits_->teacher().get()));
  fields.insert(fields.end(), of_teacher.begin(), of_teacher.end());
  return fields;
}

}  // namespace distill
