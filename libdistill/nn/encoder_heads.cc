#include "libdistill/nn/encoder_heads.h"

#include "libdistill/nn/encoder_body.h"
#include "libdistill/nn/layers.h"

// Shapes: B rows, T tokens, D documents, H hidden, L labels.
namespace distill {
namespace {

using torch::Tensor;
using torch::TensorOptions;

bool IsBert(const EncoderConfig& config) { return config.model_type == "bert"; }

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

}  // namespace

EncoderWithHead::EncoderWithHead(const EncoderConfig& config, const TensorOptions& options, bool blocks_later)
    : body_(register_module(EncoderPrefix(config), std::make_shared<EncoderBody>(config, options, blocks_later))) {}

EncoderWithHead::~EncoderWithHead() = default;

std::vector<std::vector<Tensor>> EncoderWithHead::BlockWeights() const { return body_->BlockWeights(); }

const EncoderConfig& EncoderWithHead::config() const { return body_->config(); }

void EncoderWithHead::EnableDropout() { body_->EnableDropout(); }

Tensor EncoderWithHead::Hidden(const TokenInput& input) const {
  return body_->Hidden(input, *this, /*sink=*/nullptr, checkpoints_);
}

// BERT's pooler is a part of its body there.
struct SequenceClassifier::Head {
  Head(const EncoderConfig& c, int64_t labels, const TensorOptions& options, torch::nn::Module& root,
       EncoderBody& body) {
    const int64_t h = c.hidden_size;
    dense =
        IsBert(c) ? AddLinear(body, "pooler.dense", h, h, options) : AddLinear(root, "pre_classifier", h, h, options);
    classifier = AddLinear(root, "classifier", h, labels, options);
  }
  std::shared_ptr<Linear> dense, classifier;
};

SequenceClassifier::SequenceClassifier(const EncoderConfig& config, int64_t labels, const TensorOptions& options,
                                       bool blocks_later)
    : EncoderWithHead(config, options, blocks_later),
      head_(std::make_unique<Head>(config, labels, options, *this, *body_)) {}

SequenceClassifier::SequenceClassifier(const EncoderConfig& config, int64_t labels, uint64_t seed)
    : SequenceClassifier(config, labels, TensorOptions(torch::kFloat32), /*blocks_later=*/false) {
  InitialiseEncoder(*this, *body_, seed);
}

SequenceClassifier::~SequenceClassifier() = default;

Tensor SequenceClassifier::forward(const TokenInput& input) {
  const Tensor dense = (*head_->dense)(Hidden(input).flatten(0, 1).index_select(0, FirstTokens(input)));
  const Tensor pooled = IsBert(config()) ? dense.tanh() : dense.relu();
  const double dropout = body_->DropoutNow(config().classifier_dropout);
  return (*head_->classifier)(at::dropout(pooled, dropout, /*train=*/true));
}

std::string SequenceClassifier::architecture() const {
  return IsBert(config()) ? "BertForSequenceClassification" : "DistilBertForSequenceClassification";
}

int64_t SequenceClassifier::outputs() const { return head_->classifier->weight.size(0); }

struct SpanModel::Head {
  std::shared_ptr<Linear> outputs;
};

SpanModel::SpanModel(const EncoderConfig& config, const TensorOptions& options, bool blocks_later)
    : EncoderWithHead(config, options, blocks_later),
      head_(std::make_unique<Head>(Head{AddLinear(*this, "qa_outputs", config.hidden_size, 2, options)})) {}

SpanModel::SpanModel(const EncoderConfig& config, uint64_t seed)
    : SpanModel(config, TensorOptions(torch::kFloat32), /*blocks_later=*/false) {
  InitialiseEncoder(*this, *body_, seed);
}

SpanModel::~SpanModel() = default;

Tensor SpanModel::forward(const TokenInput& input) {
  const double dropout = body_->DropoutNow(config().span_dropout);
  return (*head_->outputs)(at::dropout(Hidden(input), dropout, /*train=*/true));
}

std::string SpanModel::architecture() const {
  return IsBert(config()) ? "BertForQuestionAnswering" : "DistilBertForQuestionAnswering";
}

}  // namespace distill
