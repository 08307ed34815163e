// config.json of the BERT, DistilBERT and RoBERTa families.
//
// Every field that changes the computation is honoured, or refused by its name; dropout only where it is asked for
// (LoadOptions::dropout). All fields are kept for the config.json that is saved.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace distill {

struct EncoderConfig {
  std::string model_type;  // "bert", "distilbert" or "roberta"
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;  // a multiple of num_attention_heads
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 0;  // 0: no embedding of token types
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;
  // Its row of the embedding gets no gradient as an input (padding_idx). RoBERTa's positions count from the one behind
  // it.
  int64_t pad_token_id = 0;
  // What is dropped in training, with transformers' defaults: of the states, of the attention's probabilities, and of
  // what goes into a head.
  double hidden_dropout = 0.1;
  double attention_dropout = 0.1;
  double classifier_dropout = 0.1;
  double span_dropout = 0.0;
  std::string json;  // the original text

  // How many tokens a document may have: RoBERTa has no use for its first positions.
  int64_t most_tokens() const { return max_position_embeddings - (model_type == "roberta" ? pad_token_id + 1 : 0); }
};

// NotFound, DataLoss (no JSON), InvalidArgument: file and field are named, with what is supported.
[[nodiscard]] absl::StatusOr<EncoderConfig> ReadEncoderConfig(const std::string& folder);
// The same from text; `name` stands for the file in messages.
[[nodiscard]] absl::StatusOr<EncoderConfig> ParseEncoderConfig(const std::string& json, const std::string& name);

// How many labels a classifier of this config.json has: those of "id2label", or "num_labels"; 2 where there are none.
// InvalidArgument: the field is named.
[[nodiscard]] absl::StatusOr<int64_t> LabelsOf(const EncoderConfig& config);
// The config.json of a model with the same body and transformers' head `architecture`, which gives that many numbers;
// names of labels stay where there are as many. DataLoss: the config came without its JSON.
[[nodiscard]] absl::StatusOr<std::string> JsonWithHead(const EncoderConfig& config, const std::string& architecture,
                                                       int64_t labels);

}  // namespace distill
