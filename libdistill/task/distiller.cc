#include "libdistill/task/distiller.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "libdistill/core/exact_text.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/task/token_tensors.h"
#include "libdistill/text/tokenizer.h"

namespace distill {
namespace {

constexpr char kTokenizerFile[] = "tokenizer.json";

// Where the tokenizer of a model lies; empty where nothing is known of it.
std::string TokenizerFolder(const LanguageModel* model) {
  const std::string folder = model == nullptr ? "" : model->source_folder();
  return !folder.empty() && FileExists(JoinPath(folder, kTokenizerFile)) ? folder : "";
}

// `covered`: rows of the smaller head.
absl::Status CheckTokenizers(const std::string& teacher_folder, const std::string& student_folder, int64_t covered) {
  const std::string& folder = student_folder.empty() ? teacher_folder : student_folder;
  if (folder.empty()) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(folder));
  if (tokenizer.vocab_size() > covered) {
    return absl::InvalidArgumentError(absl::StrCat("the tokenizer in ", folder, " has ", tokenizer.vocab_size(),
                                                   " ids, the smaller model's head only ", covered,
                                                   " rows; teacher and student must both cover it"));
  }
  if (teacher_folder.empty() || student_folder.empty()) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const std::string of_teacher, ReadFile(JoinPath(teacher_folder, kTokenizerFile)));
  DISTILL_ASSIGN_OR_RETURN(const std::string of_student, ReadFile(JoinPath(student_folder, kTokenizerFile)));
  if (of_teacher == of_student) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const Tokenizer teachers, Tokenizer::Load(teacher_folder));
  return Annotate(RequireSameTokenizer(teachers, tokenizer), absl::StrCat(teacher_folder, " and ", student_folder));
}

}  // namespace

absl::StatusOr<Distiller> Distiller::Create(std::shared_ptr<LanguageModel> teacher,
                                            std::shared_ptr<LanguageModel> student,
                                            const DistillationOptions& options) {
  if (student == nullptr) return absl::InvalidArgumentError("a distiller needs a student");
  if (!(options.temperature > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("temperature: ", options.temperature, " is not above 0"));
  }
  if (!(options.alpha >= 0 && options.alpha <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("alpha: ", options.alpha, " is not within 0 and 1"));
  }
  if (!(options.beta >= 0 && options.beta <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("beta: ", options.beta, " is not within 0 and 1"));
  }
  if (teacher == nullptr && options.alpha != 0) {
    return absl::InvalidArgumentError(absl::StrCat("alpha: ", options.alpha, " wants a teacher, and there is none"));
  }
  int64_t covered = student->head_weight().size(0);
  if (teacher != nullptr) covered = std::min(covered, teacher->head_weight().size(0));
  if (options.vocabulary > covered) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tokenizer has ", options.vocabulary, " ids, the smaller head only ", covered, " rows"));
  }
  DISTILL_RETURN_IF_ERROR(CheckTokenizers(TokenizerFolder(teacher.get()), TokenizerFolder(student.get()), covered));
  Distiller distiller;
  distiller.options_ = options;
  if (options.vocabulary <= 0) distiller.options_.vocabulary = covered;
  if (teacher != nullptr) {
    teacher->eval();
    for (torch::Tensor& parameter : teacher->parameters()) parameter.requires_grad_(false);
  }
  distiller.teacher_ = std::move(teacher);
  distiller.student_ = std::move(student);
  return distiller;
}

int64_t Distiller::vocabulary() const { return options_.vocabulary; }

std::map<std::string, int64_t> Distiller::TrainedRows(const torch::nn::Module& module) const {
  std::set<const c10::TensorImpl*> padded;
  for (const torch::Tensor& tensor : {student_->head_weight(), student_->head_bias(), student_->embedding_weight()}) {
    if (tensor.defined() && tensor.size(0) > vocabulary()) padded.insert(tensor.unsafeGetTensorImpl());
  }
  std::map<std::string, int64_t> rows;
  for (const auto& item : module.named_parameters()) {
    // Once each: a parameter that goes by two names is trained by its first.
    const bool is_padded = padded.erase(item.value().unsafeGetTensorImpl()) > 0;
    if (is_padded && item.value().requires_grad()) rows[item.key()] = vocabulary();
  }
  return rows;
}

absl::Status Distiller::SaveStudent(const std::string& folder) const {
  std::string tokenizer_folder = TokenizerFolder(student_.get());
  if (tokenizer_folder.empty()) tokenizer_folder = TokenizerFolder(teacher_.get());
  return student_->Save(folder, tokenizer_folder, student_->head_weight().scalar_type());
}

std::vector<std::pair<std::string, std::string>> Distiller::Fingerprint() const {
  // The last one is the call's own.
  const auto& [temperature, alpha, beta, chunk_tokens, vocabulary, unused] = options_;
  (void)unused;
  return {{"temperature", ExactText(temperature)},
          {"alpha", ExactText(alpha)},
          {"beta", ExactText(beta)},
          {"chunk_tokens", absl::StrCat(chunk_tokens)},
          {"vocabulary", absl::StrCat(vocabulary)},
          {"has a teacher", absl::StrCat(teacher_ != nullptr)}};
}

std::string Distiller::DivergenceName() const {
  if (options_.beta == 0) return "kl";
  return options_.beta == 1 ? "reverse_kl" : "jsd";
}

// One that is shared out runs for each micro-batch on every rank (ShardFrozen).
bool Distiller::AsksTeacher() const {
  if (teacher_ == nullptr) return false;
  const bool trains = torch::GradMode::is_enabled();
  return options_.alpha > 0 || !trains || teacher_->weight_gate() != nullptr;
}

LossSum Distiller::operator()(const TokenBatch& batch, double gradient_scale) const {
  LossSum sum;
  sum.count = batch.num_loss_tokens();
  if (sum.count == 0) return sum;
  const TokenTensors tensors = ToTensors(batch, student_->head_weight().device());

  DistillationInputs inputs;
  inputs.labels = tensors.labels;
  const bool asks_teacher = AsksTeacher();
  if (asks_teacher) {
    const torch::NoGradGuard no_grad;
    inputs.teacher_hidden = teacher_->HeadInput(teacher_->HiddenAt(tensors.input, tensors.positions));
    inputs.teacher_weight = teacher_->head_weight();
    inputs.teacher_bias = teacher_->head_bias();
  }
  inputs.student_hidden = student_->HeadInput(student_->HiddenAt(tensors.input, tensors.positions));
  inputs.student_weight = student_->head_weight();
  inputs.student_bias = student_->head_bias();
  if (torch::GradMode::is_enabled()) {
    inputs.student_weight_gradient = student_->HeadGradientMemory();
    inputs.take_student_weight_gradient = student_->HeadGradientTaker();
  }
  DistillationOptions options = options_;
  options.gradient_scale = gradient_scale;
  const DistillationSums sums = DistillationLoss(inputs, options);
  sum.loss = sums.loss;
  sum.sums["ce"] = sums.ce;
  if (asks_teacher) sum.sums[DivergenceName()] = sums.divergence;
  return sum;
}

}  // namespace distill
