#include "libdistill/task/masked_distiller.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "libdistill/core/exact_text.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/loss/cosine.h"
#include "libdistill/task/token_tensors.h"

namespace distill {
namespace {

absl::Status CheckOptions(const MaskedDistillerOptions& options) {
  const std::pair<const char*, double> weights[] = {
      {"kl_weight", options.kl_weight}, {"mlm_weight", options.mlm_weight}, {"cosine_weight", options.cosine_weight}};
  for (const auto& [name, weight] : weights) {
    if (!(weight >= 0)) return absl::InvalidArgumentError(absl::StrCat(name, ": ", weight, " is below 0"));
  }
  if (options.kl_weight + options.mlm_weight > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("kl_weight and mlm_weight are both 0: nothing is asked of the student's words");
}

}  // namespace

absl::StatusOr<MaskedDistiller> MaskedDistiller::Create(std::shared_ptr<LanguageModel> teacher,
                                                        std::shared_ptr<LanguageModel> student,
                                                        const MaskedDistillerOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckOptions(options));
  if (teacher == nullptr) return absl::InvalidArgumentError("a masked distiller needs a teacher");
  const DistillationOptions of_logits = {.temperature = options.temperature, .chunk_tokens = options.chunk_tokens};
  DISTILL_ASSIGN_OR_RETURN(Distiller distiller, Distiller::Create(teacher, student, of_logits));
  const int64_t of_teacher = teacher->head_weight().size(1), of_student = student->head_weight().size(1);
  if (options.cosine_weight > 0 && of_teacher != of_student) {
    return absl::InvalidArgumentError(absl::StrCat("cosine_weight: the teacher's states have ", of_teacher,
                                                   " numbers, the student's ", of_student,
                                                   "; set it to 0, or choose a student of the teacher's width"));
  }
  return MaskedDistiller(std::move(teacher), std::move(student), std::move(distiller), options);
}

LossSum MaskedDistiller::operator()(const TokenBatch& batch, double tokens_per_label, double gradient_scale) const {
  const TokenTensors tensors = ToTensors(batch, student_->head_weight().device(), LossAt::kTokens);
  LossSum sum;
  sum.count = tensors.positions.size(0);
  if (sum.count == 0) return sum;
  DistillationInputs inputs;
  inputs.labels = tensors.labels;
  const bool asks_words = options_.kl_weight > 0 || !torch::GradMode::is_enabled();
  torch::Tensor teacher_states;
  if (asks_words || options_.cosine_weight > 0 || teacher_->weight_gate() != nullptr) {
    const torch::NoGradGuard no_grad;
    teacher_states = teacher_->HiddenAt(tensors.input, tensors.positions);
  }
  if (asks_words) {
    const torch::NoGradGuard no_grad;
    inputs.teacher_hidden = teacher_->HeadInput(teacher_states);
    inputs.teacher_weight = teacher_->head_weight();
    inputs.teacher_bias = teacher_->head_bias();
  }
  const torch::Tensor states = student_->HiddenAt(tensors.input, tensors.positions);
  inputs.student_hidden = student_->HeadInput(states);
  inputs.student_weight = student_->head_weight();
  inputs.student_bias = student_->head_bias();
  if (torch::GradMode::is_enabled()) {
    inputs.student_weight_gradient = student_->HeadGradientMemory();
    inputs.take_student_weight_gradient = student_->HeadGradientTaker();
  }
  TORCH_CHECK_VALUE(std::isfinite(tokens_per_label) && tokens_per_label >= 0, "tokens_per_label: ", tokens_per_label,
                    " is no number of tokens; give 0 for a step without labels");
  // The two losses of the logits, as shares of their sum.
  const double of_kl = options_.kl_weight, of_ce = options_.mlm_weight * tokens_per_label, of_logits = of_kl + of_ce;
  // What the backward pass multiplies it by, to the bit.
  const double incoming = of_logits > 0 ? static_cast<float>(of_logits) * gradient_scale : gradient_scale;
  const DistillationSums logits = DistillationLoss(inputs, {.temperature = options_.temperature,
                                                            .alpha = of_logits > 0 ? of_kl / of_logits : 0,
                                                            .chunk_tokens = options_.chunk_tokens,
                                                            .vocabulary = distiller_.vocabulary(),
                                                            .gradient_scale = incoming});
  sum.loss = logits.loss * of_logits;
  sum.sums["mlm"] = logits.ce * tokens_per_label;
  if (asks_words) sum.sums["kl"] = logits.divergence;
  if (options_.cosine_weight > 0) {
    const torch::Tensor cosine = CosineLoss(states, teacher_states);
    sum.loss = sum.loss + cosine * options_.cosine_weight;
    sum.sums["cosine"] = cosine.detach();
  }
  return sum;
}

std::vector<std::pair<std::string, std::string>> MaskedDistiller::Fingerprint() const {
  return {{"temperature", ExactText(options_.temperature)},      {"kl_weight", ExactText(options_.kl_weight)},
          {"mlm_weight", ExactText(options_.mlm_weight)},        {"cosine_weight", ExactText(options_.cosine_weight)},
          {"chunk_tokens", absl::StrCat(options_.chunk_tokens)}, {"vocabulary", absl::StrCat(distiller_.vocabulary())}};
}

}  // namespace distill
