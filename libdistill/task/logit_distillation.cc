#include "libdistill/task/logit_distillation.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/description.h"
#include "libdistill/core/identity.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/loss/state_match.h"
#include "libdistill/nn/gradient_sink.h"
#include "libdistill/store/files.h"
#include "libdistill/task/device_batch.h"
#include "libdistill/task/layer_map.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/text/tokenizer.h"

namespace distill {
namespace {

constexpr char kTokenizerFile[] = "tokenizer.json";

// The folder where it is one with a tokenizer; empty where nothing is known of it.
std::string TokenizerFolder(const std::string& folder) {
  return !folder.empty() && Tokenizer::IsIn(folder) ? folder : "";
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
  const absl::StatusOr<std::string> of_teacher = ReadFile(JoinPath(teacher_folder, kTokenizerFile));
  const absl::StatusOr<std::string> of_student = ReadFile(JoinPath(student_folder, kTokenizerFile));
  if (of_teacher.ok() && of_student.ok() && *of_teacher == *of_student) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const Tokenizer teachers, Tokenizer::Load(teacher_folder));
  return Annotate(RequireSameTokenizer(teachers, tokenizer), absl::StrCat(teacher_folder, " and ", student_folder));
}

}  // namespace

void SetStudentHead(const LanguageModel& student, DistillationInputs& inputs) {
  const torch::Tensor weight = student.head_weight();
  inputs.student_weight = weight;
  inputs.student_bias = student.head_bias();
  inputs.student_logits = {.scale = student.logit_scale(), .softcap = student.logit_softcap()};
  const auto* user = dynamic_cast<const GradientSinkUser*>(&student);
  if (user == nullptr || user->gradient_sink() == nullptr || !torch::GradMode::is_enabled()) return;
  const std::shared_ptr<GradientSink> sink = user->gradient_sink();
  inputs.student_weight_gradient = sink->Borrow(weight);
  if (!inputs.student_weight_gradient.defined()) {
    inputs.student_weight_gradient = sink->BorrowSum(weight);
    inputs.adds_student_weight_gradient = inputs.student_weight_gradient.defined();
  }
  if (!inputs.adds_student_weight_gradient && !sink->TakesWide(weight)) return;
  inputs.take_student_weight_gradient = [sink, weight](const torch::Tensor& gradient) {
    sink->AddWide(weight, gradient);
  };
}

void SetTeacherWords(const TeacherAnswer& answer, DistillationInputs& inputs) {
  const auto here = [device = inputs.labels.device()](const torch::Tensor& tensor) {
    return tensor.defined() ? tensor.to(device) : tensor;
  };
  if (const auto* head = std::get_if<TeacherHead>(&answer.words)) {
    inputs.teacher_hidden = here(head->input);
    inputs.teacher_weight = here(head->weight);
    inputs.teacher_bias = here(head->bias);
    inputs.teacher_logits = head->scaling;
  } else if (const auto* logits = std::get_if<TeacherLogits>(&answer.words)) {
    inputs.teacher_values = here(logits->values);
  } else if (const auto* top = std::get_if<TeacherTopK>(&answer.words)) {
    inputs.teacher_values = here(top->values);
    inputs.teacher_ids = here(top->ids);
  } else {
    throw StatusError(absl::InvalidArgumentError("the teacher was asked for words, and answered without any"));
  }
}

absl::StatusOr<std::shared_ptr<LogitDistillation>> LogitDistillation::Create(std::shared_ptr<Teacher> teacher,
                                                                             std::shared_ptr<LanguageModel> student,
                                                                             const DistillationOptions& options) {
  if (student == nullptr) return absl::InvalidArgumentError("a distiller needs a student");
  DISTILL_RETURN_IF_ERROR(CheckOptions(options));
  if (teacher == nullptr && !IsOfLabelsAlone(options)) {
    const bool at_end = options.alpha == 0;
    return absl::InvalidArgumentError(
        absl::StrCat(at_end ? "alpha_end: " : "alpha: ", at_end ? *options.alpha_schedule.end : options.alpha,
                     " wants a teacher, and there is none"));
  }
  int64_t covered = student->head_weight().size(0);
  if (teacher != nullptr) covered = std::min(covered, teacher->vocabulary());
  if (options.vocabulary > covered) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tokenizer has ", options.vocabulary, " ids, the smaller head only ", covered, " rows"));
  }
  const std::string of_teacher = teacher != nullptr ? TokenizerFolder(teacher->source_folder()) : "";
  DISTILL_RETURN_IF_ERROR(CheckTokenizers(of_teacher, TokenizerFolder(student->source_folder()), covered));
  DistillationOptions used = options;
  if (options.vocabulary <= 0) used.vocabulary = covered;
  auto made = std::shared_ptr<LogitDistillation>(new LogitDistillation(std::move(teacher), std::move(student), used));
  if (options.hidden_weight > 0) DISTILL_RETURN_IF_ERROR(made->MatchStates());
  return made;
}

absl::Status LogitDistillation::MatchStates() {
  const int64_t of_student = student_->num_layers(), of_teacher = teacher_ == nullptr ? 0 : teacher_->num_layers();
  if (of_teacher == 0 || of_student == 0) {
    return absl::InvalidArgumentError(absl::StrCat("hidden_weight: there are no states of layers of the ",
                                                   of_teacher == 0 ? "teacher" : "student", " to be had; set it to 0"));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<LayerPair> pairs,
                           ParseLayerMap(options_.layer_map, of_student, of_teacher));
  for (const LayerPair& pair : pairs) {
    student_layers_.push_back(pair.student);
    teacher_layers_.push_back(pair.teacher);
  }
  DISTILL_ASSIGN_OR_RETURN(projections_, AddStateProjections(pairs.size(), teacher_->hidden_size(), *student_));
  return absl::OkStatus();
}

std::vector<TermWeight> LogitDistillation::LossTerms() const {
  if (student_layers_.empty()) return {{"loss"}};
  const double start = options_.hidden_weight;
  const auto at = [start, schedule = options_.hidden_weight_schedule](double progress) {
    return WeightAt(start, schedule, progress);
  };
  return {{"logits"}, {"hidden", at(1), at}};
}

std::vector<std::string> LogitDistillation::Reported() const {
  if (!AsksTeacher(/*trains=*/true)) return {"ce"};
  return {"ce", DivergenceName()};
}

std::map<std::string, int64_t> LogitDistillation::TrainedRows(const torch::nn::Module& module) const {
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

absl::Status LogitDistillation::SaveModel(const torch::nn::Module& module, const std::string& folder) const {
  if (&module != student_.get())
    return absl::UnimplementedError("the module that is trained is not the student itself");
  std::string tokenizer_folder = TokenizerFolder(student_->source_folder());
  if (tokenizer_folder.empty() && teacher_ != nullptr) tokenizer_folder = TokenizerFolder(teacher_->source_folder());
  return student_->Save(folder, tokenizer_folder, student_->head_weight().scalar_type());
}

absl::StatusOr<Fields> LogitDistillation::Fingerprint() const {
  FieldValues fields = ValuesOf(options_);
  DISTILL_ASSIGN_OR_RETURN(const Fields of_teacher, FingerprintOf(teacher_.get()));
  fields.insert(fields.end(), of_teacher.begin(), of_teacher.end());
  return fields;
}

std::string LogitDistillation::DivergenceName() const {
  const Divergence chosen = ChosenDivergence(options_);
  return chosen == Divergence::kJensenShannon ? "jsd" : FieldText(chosen);
}

bool LogitDistillation::AsksTeacher(bool trains) const {
  return teacher_ != nullptr && (!IsOfLabelsAlone(options_) || !trains || teacher_->must_be_asked());
}

void LogitDistillation::Prepare(TokenBatch& batch, const c10::Stream* copies) const {
  if (copies != nullptr && batch.num_loss_tokens() > 0) batch.sent = Send(batch, *copies);
}

void LogitDistillation::JudgeTeacher(const DistillationInputs& inputs, int64_t count) const {
  if (std::exchange(judged_teacher_, true) || GetIdentity().rank != 0 || !inputs.teacher_weight.defined()) return;
  const torch::NoGradGuard no_grad;
  DistillationInputs alone;
  alone.student_hidden = inputs.teacher_hidden;
  alone.student_weight = inputs.teacher_weight;
  alone.student_bias = inputs.teacher_bias;
  alone.student_logits = inputs.teacher_logits;
  alone.labels = inputs.labels;
  DistillationOptions options = options_;
  options.alpha = 0;
  const double loss = DistillationLoss(alone, options).ce.item<double>() / static_cast<double>(count);
  const double chance = std::log(static_cast<double>(vocabulary()));
  if (loss < kShareOfChance * chance) return;
  LogWarning(absl::StrFormat(
      "the teacher knows no more of this data than chance: its loss on the first batch is %.2f, the logarithm of the "
      "vocabulary %.2f. Are its weights those of a trained model, and its tokenizer the right one (%s)?",
      loss, chance, teacher_->source_folder()));
}

Losses LogitDistillation::Forward(const TokenBatch& batch, const PassScale& scale) const {
  const int64_t count = batch.num_loss_tokens();
  if (count == 0) return {};
  const TokenTensors tensors = ToTensors(batch, student_->head_weight().device());

  DistillationInputs inputs;
  inputs.labels = tensors.labels;
  const bool asks_words = AsksTeacher(torch::GradMode::is_enabled()), matches = !student_layers_.empty();
  TeacherAnswer answer;
  if (asks_words || matches) {
    answer = OrThrow(teacher_->Ask(batch, tensors, {.words = asks_words, .layers = teacher_layers_}));
  }
  if (asks_words) SetTeacherWords(answer, inputs);
  if (asks_words) JudgeTeacher(inputs, count);
  const LayerStates states = matches ? student_->StatesAt(tensors.input, tensors.positions, student_layers_)
                                     : LayerStates{student_->HiddenAt(tensors.input, tensors.positions), {}};
  inputs.student_hidden = student_->HeadInput(states.last);
  SetStudentHead(*student_, inputs);
  DistillationOptions options = OptionsAt(options_, scale.progress);
  options.gradient_scale = scale.gradient_scale;
  const DistillationSums sums = DistillationLoss(inputs, options);
  Losses losses = {{matches ? "logits" : "loss", sums.loss, count}, {"ce", sums.ce, count}};
  if (matches) losses.terms.push_back({"hidden", HiddenLoss(states, answer), count});
  if (asks_words) losses.terms.push_back({DivergenceName(), sums.divergence, count});
  return losses;
}

// The mean over the pairs of layers.
torch::Tensor LogitDistillation::HiddenLoss(const LayerStates& states, const TeacherAnswer& answer) const {
  TORCH_CHECK_VALUE(answer.layers.size() == teacher_layers_.size(), "the teacher was asked for the states of ",
                    teacher_layers_.size(), " layers, and answered with ", answer.layers.size());
  torch::Tensor sum;
  for (size_t i = 0; i < states.layers.size(); ++i) {
    const torch::Tensor& student = states.layers[i];
    const torch::Tensor loss = StateMatchLoss(student, projections_->weight(i), answer.layers[i].to(student.device()));
    sum = sum.defined() ? sum + loss : loss;
  }
  return sum / static_cast<double>(states.layers.size());
}

}  // namespace distill
