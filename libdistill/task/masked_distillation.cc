#include "libdistill/task/masked_distillation.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/description.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/loss/distillation_loss.h"
#include "libdistill/task/device_batch.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

// The order of the loss terms.
enum Term : size_t { kKl, kMlm, kCosine };

}  // namespace

absl::StatusOr<std::shared_ptr<MaskedDistillation>> MaskedDistillation::Create(std::shared_ptr<Teacher> teacher,
                                                                               std::shared_ptr<LanguageModel> student,
                                                                               const MaskedDistillerOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckOptions(options));
  if (teacher == nullptr) return absl::InvalidArgumentError("a masked distiller needs a teacher");
  const DistillationOptions of_logits = {.temperature = options.temperature, .chunk_tokens = options.chunk_tokens};
  const int64_t of_teacher = teacher->hidden_size();
  DISTILL_ASSIGN_OR_RETURN(auto logits, LogitDistillation::Create(std::move(teacher), std::move(student), of_logits));
  const int64_t of_student = logits->student().head_weight().size(1);
  if (options.cosine_weight > 0 && of_teacher != of_student) {
    if (of_teacher == 0) {
      return absl::InvalidArgumentError(
          "cosine_weight: the teacher answers without states (Teacher::hidden_size); set it to 0");
    }
    return absl::InvalidArgumentError(absl::StrCat("cosine_weight: the teacher's states have ", of_teacher,
                                                   " numbers, the student's ", of_student,
                                                   "; set it to 0, or choose a student of the teacher's width"));
  }
  return std::shared_ptr<MaskedDistillation>(new MaskedDistillation(std::move(logits), options));
}

std::vector<TermWeight> MaskedDistillation::LossTerms() const {
  return {{"kl", options_.kl_weight}, {"mlm", options_.mlm_weight}, {"cosine", options_.cosine_weight}};
}

std::vector<int64_t> MaskedDistillation::Counts(const TokenBatch& batch) const {
  return {batch.num_tokens(), batch.num_loss_tokens(), batch.num_tokens()};
}

void MaskedDistillation::Prepare(TokenBatch& batch, const c10::Stream* copies) const {
  if (copies != nullptr && batch.num_tokens() > 0) batch.sent = Send(batch, *copies, LossAt::kTokens);
}

Losses MaskedDistillation::Forward(const TokenBatch& batch, const PassScale& scale) const {
  const LanguageModel& head = logits_->student();
  const TokenTensors tensors = ToTensors(batch, head.head_weight().device(), LossAt::kTokens);
  const int64_t tokens = tensors.positions.size(0);
  if (tokens == 0) return {};
  DistillationInputs inputs;
  inputs.labels = tensors.labels;
  Teacher& teacher = *logits_->teacher();
  const bool asks_words = options_.kl_weight > 0 || !torch::GradMode::is_enabled();
  TeacherAnswer answer;
  if (asks_words || options_.cosine_weight > 0 || teacher.must_be_asked()) {
    answer = OrThrow(teacher.Ask(batch, tensors, asks_words));
  }
  if (asks_words) SetTeacherWords(answer, inputs);
  const torch::Tensor states = logits_->student().HiddenAt(tensors.input, tensors.positions);
  inputs.student_hidden = head.HeadInput(states);
  SetStudentHead(head, inputs);
  // The two losses of the logits, as shares of their sum. Words of weight 0 are left out of it.
  const double of_kl = asks_words ? scale.factor(kKl) : 0, of_ce = scale.factor(kMlm), of_logits = of_kl + of_ce;
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

absl::StatusOr<Fields> MaskedDistillation::Fingerprint() const {
  FieldValues fields = ValuesOf(options_);
  fields.emplace_back("vocabulary", absl::StrCat(logits_->vocabulary()));
  DISTILL_ASSIGN_OR_RETURN(const Fields of_teacher, FingerprintOf(logits_->teacher().get()));
  fields.insert(fields.end(), of_teacher.begin(), of_teacher.end());
  return fields;
}

}  // namespace distill
