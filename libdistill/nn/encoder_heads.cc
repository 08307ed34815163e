#include "libdistill/nn/encoder_heads.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/dropout.h"
#include "libdistill/nn/encoder_body.h"
#include "libdistill/nn/layers.h"
#include "libdistill/nn/model_folder.h"

// Shapes: B rows, T tokens, D documents, H hidden, L labels.
namespace distill {
namespace {

using torch::Tensor;
using torch::TensorOptions;

// What the families call a classifier's two layers. BERT's pooler is a part of its body there.
struct ClassifierNames {
  std::string dense, classifier;
};
ClassifierNames ClassifierNamesOf(const EncoderConfig& config) {
  if (config.model_type == "bert") return {"bert.pooler.dense", "classifier"};
  if (config.model_type == "roberta") return {"classifier.dense", "classifier.out_proj"};
  return {"pre_classifier", "classifier"};
}

// "BertForSequenceClassification"
std::string ArchitectureOf(const EncoderConfig& config, const char* head) {
  const char* const family = config.model_type == "bert"      ? "Bert"
                             : config.model_type == "roberta" ? "Roberta"
                                                              : "DistilBert";
  return absl::StrCat(family, "For", head);
}

std::shared_ptr<Linear> AddLinear(torch::nn::Module& root, const std::string& path, int64_t in, int64_t out,
                                  const TensorOptions& options) {
  return RegisterAt(root, path, std::make_shared<Linear>(in, out, /*has_bias=*/true, options));
}

// int64 [D]: the first tokens of the documents that have any, as indices into [B * T].
Tensor FirstTokens(const TokenInput& input) {
  const int64_t rows = input.input_ids.size(0), tokens = input.input_ids.size(1);
  if (input.document_starts.empty()) return torch::arange(rows, input.input_ids.options()) * tokens;
  std::vector<int64_t> first;
  for (size_t row = 0; row < input.document_starts.size(); ++row) {
    const std::vector<int64_t>& starts = input.document_starts[row];
    for (size_t i = 0; i + 1 < starts.size(); ++i) {
      if (starts[i] < starts[i + 1]) first.push_back(static_cast<int64_t>(row) * tokens + starts[i]);
    }
  }
  return torch::tensor(first, torch::kInt64).to(input.input_ids.device());
}

// A classifier that the folder has already is taken whole.
absl::Status CheckLabels(const std::string& folder, const std::string& classifier, int64_t labels) {
  if (labels < 1) return absl::InvalidArgumentError(absl::StrCat("labels: ", labels, " is below 1"));
  DISTILL_ASSIGN_OR_RETURN(const WeightsFolder weights, WeightsFolder::Open(folder));
  const TensorView* head = weights.Find(classifier + ".weight");
  if (head == nullptr || head->shape.empty() || head->shape[0] == labels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(folder, ": its classifier has ", head->shape[0], " labels, not ",
                                                 labels, "; leave labels at 0 to take it, or load a folder ",
                                                 "without a classifier to have a new one"));
}

}  // namespace

EncoderWithHead::EncoderWithHead(const EncoderConfig& config, const TensorOptions& options, bool blocks_later)
    : body_(register_module(EncoderPrefix(config), std::make_shared<EncoderBody>(config, options, blocks_later))) {}

std::vector<std::vector<Tensor>> EncoderWithHead::BlockWeights() const { return body_->BlockWeights(); }

const EncoderConfig& EncoderWithHead::config() const { return body_->config(); }

void EncoderWithHead::EnableDropout() { body_->EnableDropout(); }

Tensor EncoderWithHead::Hidden(const TokenInput& input) const {
  return body_->Hidden(input, *this, /*sink=*/nullptr, checkpoints_);
}

absl::Status EncoderWithHead::Save(const std::string& folder, const std::string& tokenizer_folder,
                                   torch::Dtype dtype) const {
  if (config().json.empty())
    return absl::UnimplementedError("a model whose config came without its JSON has no folder");
  DISTILL_ASSIGN_OR_RETURN(const std::string json, JsonWithHead(config(), architecture(), outputs()));
  return SaveModel(*this, json, folder, tokenizer_folder, dtype);
}

SequenceClassifier::SequenceClassifier(const EncoderConfig& config, int64_t labels, const TensorOptions& options,
                                       bool blocks_later)
    : EncoderWithHead(config, options, blocks_later) {
  const int64_t h = config.hidden_size;
  const ClassifierNames names = ClassifierNamesOf(config);
  dense_ = AddLinear(*this, names.dense, h, h, options);
  classifier_ = AddLinear(*this, names.classifier, h, labels, options);
}

SequenceClassifier::SequenceClassifier(const EncoderConfig& config, int64_t labels, uint64_t seed)
    : SequenceClassifier(config, labels, TensorOptions(torch::kFloat32), /*blocks_later=*/false) {
  InitialiseEncoder(*this, *body_, seed);
}

Tensor SequenceClassifier::forward(const TokenInput& input) {
  const double dropout = body_->DropoutNow(config().classifier_dropout);
  Tensor first = Hidden(input).flatten(0, 1).index_select(0, FirstTokens(input));
  if (config().model_type == "roberta") first = Dropout(first, dropout);
  const Tensor dense = (*dense_)(first);
  const Tensor pooled = config().model_type == "distilbert" ? dense.relu() : dense.tanh();
  return (*classifier_)(Dropout(pooled, dropout));
}

std::string SequenceClassifier::architecture() const { return ArchitectureOf(config(), "SequenceClassification"); }

int64_t SequenceClassifier::outputs() const { return classifier_->weight.size(0); }

SpanModel::SpanModel(const EncoderConfig& config, const TensorOptions& options, bool blocks_later)
    : EncoderWithHead(config, options, blocks_later),
      outputs_(AddLinear(*this, "qa_outputs", config.hidden_size, 2, options)) {}

SpanModel::SpanModel(const EncoderConfig& config, uint64_t seed)
    : SpanModel(config, TensorOptions(torch::kFloat32), /*blocks_later=*/false) {
  InitialiseEncoder(*this, *body_, seed);
}

Tensor SpanModel::forward(const TokenInput& input) {
  const double dropout = body_->DropoutNow(config().span_dropout);
  return (*outputs_)(Dropout(Hidden(input), dropout));
}

std::string SpanModel::architecture() const { return ArchitectureOf(config(), "QuestionAnswering"); }

std::shared_ptr<SequenceClassifier> ClassifierShapes(const EncoderConfig& config, int64_t labels) {
  return std::shared_ptr<SequenceClassifier>(
      new SequenceClassifier(config, labels, TensorOptions(torch::kMeta), /*blocks_later=*/false));
}

std::shared_ptr<SpanModel> SpanModelShapes(const EncoderConfig& config) {
  return std::shared_ptr<SpanModel>(new SpanModel(config, TensorOptions(torch::kMeta), /*blocks_later=*/false));
}

absl::StatusOr<std::shared_ptr<SequenceClassifier>> LoadClassifier(const std::string& folder,
                                                                   const ClassifierOptions& classifier,
                                                                   const LoadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ReadEncoderConfig(folder));
  int64_t labels = classifier.labels;
  if (labels == 0) {
    DISTILL_ASSIGN_OR_RETURN(labels, LabelsOf(config));
  }
  const auto [dense, last] = ClassifierNamesOf(config);
  DISTILL_RETURN_IF_ERROR(CheckLabels(folder, last, labels));
  const WeightNames names = EncoderNamesWithHead(config, {dense, last}, classifier.seed);
  return LoadModel(folder, names, options, [&](const TensorOptions& weights, bool blocks_later) {
    return std::shared_ptr<SequenceClassifier>(new SequenceClassifier(config, labels, weights, blocks_later));
  });
}

absl::StatusOr<std::shared_ptr<SpanModel>> LoadSpanModel(const std::string& folder, const LoadOptions& options,
                                                         uint64_t head_seed) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ReadEncoderConfig(folder));
  const WeightNames names = EncoderNamesWithHead(config, {"qa_outputs"}, head_seed);
  return LoadModel(folder, names, options, [&](const TensorOptions& weights, bool blocks_later) {
    return std::shared_ptr<SpanModel>(new SpanModel(config, weights, blocks_later));
  });
}

}  // namespace distill
