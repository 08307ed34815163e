#include "examples/polarity/objective.h"

#include <cmath>
#include <numeric>
#include <utility>

#include <torch/nn/functional/loss.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

// Shapes: B rows, T tokens, C classes.
namespace distill {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;

constexpr const char* kCounted[] = {"samples_", "predicted_", "correct_"};

absl::Span<const int64_t> LengthsOf(const TensorBatch& batch) {
  const auto lengths = batch.tensors.find("ids_lengths");
  return lengths == batch.tensors.end() ? absl::Span<const int64_t>() : lengths->second.values<int64_t>();
}

TokenInput InputOf(const TensorBatch& batch) {
  TokenInput input{.input_ids = batch["ids"].to(torch::kInt64), .document_starts = {}};
  for (const int64_t length : LengthsOf(batch)) input.document_starts.push_back({0, length});
  if (batch.tensors.count("token_types") > 0) input.token_types = batch["token_types"].to(torch::kInt64);
  input.LayOut();  // once, for student and teacher
  return input;
}

// [C]: how often each class is there.
Tensor CountClasses(const Tensor& classes, size_t labels) {
  return torch::bincount(classes, /*weights=*/{}, static_cast<int64_t>(labels));
}

}  // namespace

PolarityObjective::PolarityObjective(std::shared_ptr<SequenceClassifier> student,
                                     std::shared_ptr<SequenceClassifier> teacher, const PolarityLoss& loss,
                                     std::vector<std::string> labels, int64_t held_out_samples,
                                     std::string tokenizer_folder)
    : student_(std::move(student)),
      teacher_(std::move(teacher)),
      loss_(loss),
      labels_(std::move(labels)),
      held_out_samples_(held_out_samples),
      tokenizer_folder_(std::move(tokenizer_folder)) {
  if (teacher_ == nullptr) return;
  teacher_->eval();
  for (Tensor& parameter : teacher_->parameters()) parameter.requires_grad_(false);
}

std::vector<TermWeight> PolarityObjective::LossTerms() const {
  if (teacher_ == nullptr) return {{"ce"}};
  return {{"ce", 1 - loss_.alpha}, {"kl", loss_.alpha}};
}

std::vector<int64_t> PolarityObjective::Counts(const TensorBatch& batch) const {
  return std::vector<int64_t>(LossTerms().size(), batch.rows());
}

int64_t PolarityObjective::Tokens(const TensorBatch& batch) const {
  const absl::Span<const int64_t> lengths = LengthsOf(batch);
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

Losses PolarityObjective::TermsOf(const Tensor& logits, const TokenInput& input, const TensorBatch& batch) const {
  const auto sum = F::CrossEntropyFuncOptions().reduction(torch::kSum);
  const Tensor scores = logits.to(torch::kFloat32);
  Losses losses = {{"ce", F::cross_entropy(scores, batch["label"], sum), batch.rows()}};
  if (teacher_ == nullptr) return losses;
  Tensor of_teacher;
  {
    const torch::NoGradGuard no_grad;
    of_teacher = torch::log_softmax(teacher_->forward(input).to(torch::kFloat32) / loss_.temperature, -1);
  }
  const Tensor of_student = torch::log_softmax(scores / loss_.temperature, -1);
  const Tensor divergence = (of_teacher.exp() * (of_teacher - of_student)).sum();
  losses.terms.push_back({"kl", divergence * (loss_.temperature * loss_.temperature), batch.rows()});
  return losses;
}

Losses PolarityObjective::Forward(const TensorBatch& batch, const PassScale&) const {
  const TokenInput input = InputOf(batch);
  return TermsOf(student_->forward(input), input, batch);
}

absl::Status PolarityObjective::Evaluate(const TensorBatch& batch, Metrics& metrics) const {
  const TokenInput input = InputOf(batch);
  const Tensor logits = student_->forward(input);
  for (const LossTerm& term : TermsOf(logits, input, batch).terms) metrics.Mean(term.name, term.sum, term.count);
  const Tensor predicted = logits.argmax(-1), label = batch["label"], is_right = predicted.eq(label);
  metrics.Mean("accuracy", is_right.sum(), batch.rows());
  // Shares of all samples, of which Summarize makes the counts again: exactly, since both are far below 2^53.
  const Tensor counts[] = {CountClasses(label, labels_.size()), CountClasses(predicted, labels_.size()),
                           CountClasses(label.masked_select(is_right), labels_.size())};
  for (size_t what = 0; what < std::size(kCounted); ++what) {
    for (size_t c = 0; c < labels_.size(); ++c) {
      metrics.Mean(absl::StrCat(kCounted[what], labels_[c]), counts[what][static_cast<int64_t>(c)], batch.rows());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<MetricValues> PolarityObjective::Summarize(const MetricValues& means,
                                                          const Predictions& predictions) const {
  DISTILL_ASSIGN_OR_RETURN(MetricValues values, Objective<TensorBatch>::Summarize(means, predictions));
  for (const char* what : kCounted) {
    for (const std::string& label : labels_) {
      const auto share = values.find(absl::StrCat(what, label));
      if (share != values.end()) share->second = std::round(share->second * static_cast<double>(held_out_samples_));
    }
  }
  return values;
}

absl::Status PolarityObjective::SaveModel(const torch::nn::Module& module, const std::string& folder) const {
  if (&module != student_.get()) {
    return absl::UnimplementedError("the module that is trained is not the classifier itself");
  }
  return student_->Save(folder, tokenizer_folder_, module.parameters().front().scalar_type());
}

absl::StatusOr<Fields> PolarityObjective::Fingerprint() const {
  Fields fields = {{"alpha", absl::StrCat(loss_.alpha)}, {"temperature", absl::StrCat(loss_.temperature)}};
  if (teacher_ == nullptr) return fields;
  for (const auto& [name, value] : teacher_->content())
    fields.emplace_back(absl::StrCat(name, " of the teacher"), value);
  return fields;
}

}  // namespace distill
