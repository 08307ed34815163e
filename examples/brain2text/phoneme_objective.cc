#include "examples/brain2text/phoneme_objective.h"

#include <ATen/ops/ctc_loss.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/field_text.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/hash_tensor.h"

namespace distill {
namespace {

constexpr char kErrorRate[] = "phoneme_error_rate";

GruCtc::Output RunModel(DayGru& model, const TensorBatch& batch) {
  return model.forward(batch["features"], batch["features_lengths"], batch["day"]);
}

absl::Status CheckTeacher(const BrainModelOptions& teacher, const BrainModelOptions& student) {
  const auto require = [](const char* name, const auto& of_teacher, const auto& of_student) {
    if (of_teacher == of_student) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("teacher_model: ", name, " is ", of_teacher, ", and the student's ",
                                                   of_student, ": their frames must be alike"));
  };
  DISTILL_RETURN_IF_ERROR(require("n_input_features", teacher.n_input_features, student.n_input_features));
  DISTILL_RETURN_IF_ERROR(require("n_classes", teacher.n_classes, student.n_classes));
  DISTILL_RETURN_IF_ERROR(require("patch_size", teacher.patch_size, student.patch_size));
  DISTILL_RETURN_IF_ERROR(require("patch_stride", teacher.patch_stride, student.patch_stride));
  return require("sessions", teacher.sessions, student.sessions);
}

}  // namespace

PhonemeOptions PhonemeOptionsOf(const Brain2TextOptions& options) {
  return {.temperature = options.temperature,
          .alpha = options.alpha,
          .decoder = options.decoder,
          .beam_width = options.beam_width,
          .tells_days = options.log_individual_day_val_per};
}

absl::StatusOr<std::shared_ptr<PhonemeObjective>> PhonemeObjective::Create(std::shared_ptr<DayGru> model,
                                                                           std::shared_ptr<DayGru> teacher,
                                                                           const PhonemeOptions& options) {
  if (teacher != nullptr) {
    DISTILL_RETURN_IF_ERROR(CheckTeacher(teacher->options(), model->options()));
    teacher->eval();
    teacher->SetTrainable(/*day_layers=*/false, /*gru=*/false);
  }
  return std::shared_ptr<PhonemeObjective>(new PhonemeObjective(std::move(model), std::move(teacher), options));
}

std::vector<TermWeight> PhonemeObjective::LossTerms() const {
  if (teacher_ == nullptr) return {{kLossName}};
  return {{"ctc", 1 - options_.alpha}, {"kl", options_.alpha}};
}

std::vector<int64_t> PhonemeObjective::Counts(const TensorBatch& batch) const {
  if (teacher_ == nullptr) return {batch.rows()};
  return {batch.rows(), batch.Count("kl")};
}

torch::Tensor PhonemeObjective::Divergence(const GruCtc::Output& student, const TensorBatch& batch) const {
  GruCtc::Output teacher;
  {
    const torch::NoGradGuard no_grad;
    teacher = RunModel(*teacher_, batch);
  }
  const double temperature = options_.temperature;
  const torch::Tensor p = at::log_softmax(teacher.log_probabilities / temperature, -1);
  const torch::Tensor q = at::log_softmax(student.log_probabilities / temperature, -1);
  const torch::Tensor of_frames = (p.exp() * (p - q)).sum(-1);  // [P, B]
  const torch::Tensor lengths = student.lengths.to(of_frames.device());
  const torch::Tensor frames = torch::arange(of_frames.size(0), lengths.options()).unsqueeze(1);
  // Not a product with zeros: what lies beyond a recording's frames may be anything.
  const torch::Tensor is_frame = frames < lengths.unsqueeze(0);
  return of_frames.masked_select(is_frame).sum() * (temperature * temperature);
}

Losses PhonemeObjective::LossesOf(const GruCtc::Output& output, const TensorBatch& batch) const {
  const torch::Tensor ctc = at::ctc_loss(output.log_probabilities, batch["targets"], output.lengths,
                                         batch["targets_lengths"].cpu(), /*blank=*/0, at::Reduction::Sum);
  if (teacher_ == nullptr) return {{kLossName, ctc, batch.rows()}};
  return {{"ctc", ctc, batch.rows()}, {"kl", Divergence(output, batch), batch.Count("kl")}};
}

Losses PhonemeObjective::Forward(const TensorBatch& batch, const PassScale&) const {
  return LossesOf(RunModel(*model_, batch), batch);
}

std::vector<int64_t> PhonemeObjective::Spell(const FrameScores& scores) const {
  return options_.decoder == CtcDecoder::kBeam ? SpellByBeam(scores, options_.beam_width) : SpellGreedily(scores);
}

absl::Status PhonemeObjective::Evaluate(const TensorBatch& batch, Metrics& metrics) const {
  const GruCtc::Output output = RunModel(*model_, batch);
  if (options_.has_labels) {
    for (const LossTerm& term : LossesOf(output, batch).terms) metrics.Mean(term.name, term.sum, term.count);
  }
  const torch::Tensor scores = output.log_probabilities.transpose(0, 1).contiguous().cpu();  // [B, P, C]
  const torch::Tensor targets = batch["targets"].cpu(), counts = batch["targets_lengths"].cpu(),
                      days = batch["day"].cpu();
  for (int64_t row = 0; row < batch.rows(); ++row) {
    const int64_t frames = output.lengths[row].item<int64_t>(), classes = scores.size(2);
    const torch::Tensor of_row = scores[row];
    SpelledTrial trial = {.day = days[row].item<int64_t>()};
    trial.spelled = Spell({{of_row.const_data_ptr<float>(), static_cast<size_t>(frames * classes)}, classes});
    const torch::Tensor target = targets[row].narrow(0, 0, counts[row].item<int64_t>()).contiguous();
    const int64_t* values = target.const_data_ptr<int64_t>();
    trial.target.assign(values, values + target.numel());
    metrics.Predict(batch.sample_ids[static_cast<size_t>(row)], trial.ToBytes());
  }
  return absl::OkStatus();
}

absl::StatusOr<MetricValues> PhonemeObjective::Summarize(const MetricValues& means,
                                                         const Predictions& predictions) const {
  DISTILL_ASSIGN_OR_RETURN(MetricValues values, Objective<TensorBatch>::Summarize(means, predictions));
  std::map<int64_t, SpelledTrial> trials;
  ErrorRates rates, of_diphones;
  const int64_t classes = model_->options().n_classes;
  for (const auto& [sample, bytes] : predictions) {
    DISTILL_ASSIGN_OR_RETURN(const SpelledTrial trial, SpelledTrial::FromBytes(bytes));
    of_diphones.Add(trial);
    rates.Add(trials[sample] = InPhonemes(trial, classes));
  }
  if (listener_ != nullptr) DISTILL_RETURN_IF_ERROR(listener_(trials));
  if (!options_.has_labels) return values;
  values[kErrorRate] = rates.all.rate();
  if (classes == kDiphoneClasses) values["diphone_error_rate"] = of_diphones.all.rate();
  if (!options_.tells_days) return values;
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> sessions, SessionsOf(model_->options()));
  for (const auto& [day, counts] : rates.by_day) {
    values[absl::StrCat(kErrorRate, ".", sessions[static_cast<size_t>(day)])] = counts.rate();
  }
  return values;
}

// Each rank reads its own copy of the teacher's folder.
static std::string HashOfWeights(const torch::nn::Module& module) {
  ContentHash hash;
  for (const auto& item : module.named_parameters()) HashTensor(item.value(), hash.Add(item.key()));
  return hash.Hex();
}

absl::Status PhonemeObjective::SaveModel(const torch::nn::Module& module, const std::string& folder) const {
  if (&module != model_.get()) return absl::UnimplementedError("another module is trained");
  return SaveDayGru(*model_, folder);
}

absl::StatusOr<Fields> PhonemeObjective::Fingerprint() const {
  Fields fields = {{"temperature", NumberText(options_.temperature)},
                   {"alpha", NumberText(options_.alpha)},
                   {"the decoder", FieldText(options_.decoder)},
                   {"beam_width", absl::StrCat(options_.beam_width)}};
  if (teacher_ != nullptr) fields.emplace_back("weights of the teacher", HashOfWeights(*teacher_));
  return fields;
}

}  // namespace distill
