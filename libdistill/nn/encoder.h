// Masked language models of the BERT, DistilBERT and RoBERTa families, out of and into Hugging Face folders.
//
//   DISTILL_ASSIGN_OR_RETURN(auto model, LoadEncoder("models/teacher", {.dtype = torch::kBFloat16}));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/nn/encoder_config.h"
#include "libdistill/nn/gradient_sink.h"
#include "libdistill/nn/language_model.h"
#include "libdistill/nn/load_options.h"

namespace distill {

class EncoderBody;
struct LayerNorm;
struct Linear;

// Every token sees all of its document.
class Encoder : public LanguageModel, public GradientSinkUser {
 public:
  // Random float32 weights on the CPU: normal with the config's initializer_range, norms 1, biases 0, the padding
  // token's embedding 0 (as transformers does). Equal seeds give equal weights. `blocks_later`: as in LoadOptions.
  explicit Encoder(const EncoderConfig& config, uint64_t seed = 42, bool blocks_later = false);

  // What the last block gives. Throws c10::Error on a document of more than config().most_tokens() tokens, and on
  // token types that the family does not have (DistilBERT has none but 0).
  torch::Tensor Hidden(const TokenInput& input) override;
  torch::Tensor HeadInput(const torch::Tensor& hidden) const override;
  torch::Tensor head_weight() const override;  // the embedding of words
  torch::Tensor head_bias() const override { return head_bias_; }
  torch::Tensor embedding_weight() const override { return head_weight(); }
  std::vector<std::vector<torch::Tensor>> BlockWeights() const override;
  // config.json (the original one with the dtype that was saved), model.safetensors, copies of the tokenizer files;
  // Unimplemented where the config came without its JSON. Blocks until all files are synced.
  [[nodiscard]] absl::Status Save(const std::string& folder, const std::string& tokenizer_folder,
                                  torch::Dtype dtype) const override;
  bool saves_in_order() const override { return true; }
  const EncoderConfig& config() const;
  // As Decoder's.
  void EnableGradientCheckpointing() { checkpoints_ = true; }
  // From then on states and attention's probabilities are dropped in training (train(), which modules are in until
  // eval()), as the config says, drawn from torch's default generator of the device.
  void EnableDropout();

 private:
  // Of the same sizes but for the blocks, of which block i becomes layers[i] of `other`.
  void CopyFrom(const Encoder& other, const std::vector<int64_t>& layers);
  std::vector<torch::Tensor> HeadWeights() const;
  friend absl::StatusOr<std::shared_ptr<Encoder>> MakeStudent(const Encoder&, const std::vector<int64_t>&);

  // As Decoder's.
  Encoder(const EncoderConfig& config, const torch::TensorOptions& options, bool blocks_later = false);
  friend absl::StatusOr<std::shared_ptr<Encoder>> LoadEncoder(const std::string&, const LoadOptions&);
  friend std::shared_ptr<Encoder> EncoderShapes(const EncoderConfig&);

  bool checkpoints_ = false;
  std::shared_ptr<EncoderBody> body_;
  torch::Tensor head_bias_;
  std::shared_ptr<Linear> dense_;
  std::shared_ptr<LayerNorm> norm_;
};

// An encoder whose parameters lie on the device "meta": their names and shapes, and no memory.
std::shared_ptr<Encoder> EncoderShapes(const EncoderConfig& config);

// Parameters carry transformers' names ("bert.encoder.layer.0.attention.self.query.weight"), those of BertForMaskedLM,
// DistilBertForMaskedLM and RobertaForMaskedLM. A pooler and BERT's next-sentence head, which older folders hold too,
// are passed over, and saved no more. NotFound, DataLoss, InvalidArgument: file, tensor and both shapes are named.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Encoder>> LoadEncoder(const std::string& folder,
                                                                   const LoadOptions& options = {});

// A new encoder of the shape that FOLDER/config.json describes, with random weights from `seed`; weights in the folder
// are not looked at.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Encoder>> CreateEncoder(const std::string& folder, uint64_t seed,
                                                                     const LoadOptions& options = {});

}  // namespace distill
