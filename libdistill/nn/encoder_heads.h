// Encoders of the BERT, DistilBERT and RoBERTa families that tell of a whole text, or of where in it something lies;
// out of and into Hugging Face folders.
//
//   DISTILL_ASSIGN_OR_RETURN(auto model, LoadClassifier("models/student", {.labels = 2}, {.dropout = true}));
//   torch::Tensor logits = model->forward({.input_ids = ids, .document_starts = starts});
//
// A folder of that very architecture gives body and head; one of a masked language model, of another head or of no head
// gives the body, and the head is drawn from a seed, which a log line says. Parameters carry transformers' names.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "absl/status/statusor.h"
#include "libdistill/nn/encoder_config.h"
#include "libdistill/nn/language_model.h"
#include "libdistill/nn/load_options.h"
#include "libdistill/nn/weight_gate.h"

namespace distill {

class EncoderBody;
struct Linear;

// What both have beside their heads.
class EncoderWithHead : public torch::nn::Module, public GatedModel, public HasContent {
 public:
  std::vector<std::vector<torch::Tensor>> BlockWeights() const override;
  const EncoderConfig& config() const;
  // config.json (the folder's, with this architecture and its labels), model.safetensors, copies of the tokenizer
  // files; Unimplemented where the config came without its JSON. Blocks until all files are synced.
  [[nodiscard]] absl::Status Save(const std::string& folder, const std::string& tokenizer_folder,
                                  torch::Dtype dtype) const;
  // As Decoder's.
  void EnableGradientCheckpointing() { checkpoints_ = true; }
  // As Encoder's; what goes into the head is dropped too.
  void EnableDropout();

 protected:
  // Weights that hold anything yet.
  EncoderWithHead(const EncoderConfig& config, const torch::TensorOptions& options, bool blocks_later);
  // What the last block gives, [B, T, H]: see Encoder::Hidden.
  torch::Tensor Hidden(const TokenInput& input) const;
  // Transformers' name of the class, and how many numbers its head gives.
  virtual std::string architecture() const = 0;
  virtual int64_t outputs() const = 0;

  bool checkpoints_ = false;
  std::shared_ptr<EncoderBody> body_;
};

struct ClassifierOptions {
  int64_t labels = 0;  // 0: as many as config.json tells of, or 2
  uint64_t seed = 42;  // of a head that the folder does not have
};

// One label for each text, as BertForSequenceClassification, DistilBertForSequenceClassification and
// RobertaForSequenceClassification compute it from the text's first token.
class SequenceClassifier : public EncoderWithHead {
 public:
  // Random weights: as Encoder's.
  SequenceClassifier(const EncoderConfig& config, int64_t labels, uint64_t seed = 42);
  // Logits [D, labels] of the documents, row by row and in each from left to right, but for empty ones; where each row
  // is one document, those of the rows.
  torch::Tensor forward(const TokenInput& input);
  int64_t labels() const { return outputs(); }

 private:
  SequenceClassifier(const EncoderConfig& config, int64_t labels, const torch::TensorOptions& options,
                     bool blocks_later);
  friend absl::StatusOr<std::shared_ptr<SequenceClassifier>> LoadClassifier(const std::string&,
                                                                            const ClassifierOptions&,
                                                                            const LoadOptions&);
  friend std::shared_ptr<SequenceClassifier> ClassifierShapes(const EncoderConfig&, int64_t);
  std::string architecture() const override;
  int64_t outputs() const override;

  std::shared_ptr<Linear> dense_, classifier_;
};

// Where in its text an answer begins and ends, as BertForQuestionAnswering, DistilBertForQuestionAnswering and
// RobertaForQuestionAnswering compute it.
class SpanModel : public EncoderWithHead {
 public:
  explicit SpanModel(const EncoderConfig& config, uint64_t seed = 42);
  // Logits [B, T, 2]: of the answer's first token, and of its last. Those of padding are anything.
  torch::Tensor forward(const TokenInput& input);

 private:
  SpanModel(const EncoderConfig& config, const torch::TensorOptions& options, bool blocks_later);
  friend absl::StatusOr<std::shared_ptr<SpanModel>> LoadSpanModel(const std::string&, const LoadOptions&, uint64_t);
  friend std::shared_ptr<SpanModel> SpanModelShapes(const EncoderConfig&);
  std::string architecture() const override;
  int64_t outputs() const override { return 2; }

  std::shared_ptr<Linear> outputs_;
};

// Models whose parameters lie on the device "meta": their names and shapes, and no memory.
std::shared_ptr<SequenceClassifier> ClassifierShapes(const EncoderConfig& config, int64_t labels);
std::shared_ptr<SpanModel> SpanModelShapes(const EncoderConfig& config);

// NotFound, DataLoss, InvalidArgument: file, tensor and both shapes are named; a folder whose classifier has another
// number of labels is refused.
[[nodiscard]] absl::StatusOr<std::shared_ptr<SequenceClassifier>> LoadClassifier(
    const std::string& folder, const ClassifierOptions& classifier = {}, const LoadOptions& options = {});
[[nodiscard]] absl::StatusOr<std::shared_ptr<SpanModel>> LoadSpanModel(const std::string& folder,
                                                                       const LoadOptions& options = {},
                                                                       uint64_t head_seed = 42);

}  // namespace distill
