// Decoder language models of the Qwen2 and Llama families, out of and into Hugging Face folders.
//
//   DISTILL_ASSIGN_OR_RETURN(auto model, LoadDecoder("models/teacher", {.dtype = torch::kBFloat16}));
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/nn/decoder_config.h"
#include "libdistill/nn/language_model.h"

namespace distill {

class KeyValueCache;

class Decoder : public LanguageModel {
 public:
  // Random weights: normal with the config's initializer_range, norms 1, biases 0 (as transformers does).
  explicit Decoder(const DecoderConfig& config);
  ~Decoder() override;

  torch::Tensor Hidden(const TokenInput& input) override;
  // One document a row, all rows of equal length, continuing what `cache` holds (and extending it).
  torch::Tensor HiddenWithCache(const torch::Tensor& input_ids, KeyValueCache& cache);
  torch::Tensor head_weight() const override;
  const DecoderConfig& config() const { return config_; }

 private:
  struct Layers;
  DecoderConfig config_;
  std::shared_ptr<Layers> layers_;
};

struct LoadOptions {
  torch::Dtype dtype = torch::kFloat32;
  torch::Device device = torch::kCPU;
};

// Parameters carry transformers' names ("model.layers.0.self_attn.q_proj.weight"). NotFound, DataLoss,
// InvalidArgument: file, tensor and both shapes are named.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Decoder>> LoadDecoder(const std::string& folder,
                                                                   const LoadOptions& options = {});

// Writes config.json (the original one with the dtype that was saved), model.safetensors, and copies of the tokenizer
// files of `tokenizer_folder` (none when empty) into `folder`, which transformers' from_pretrained opens. Weights are
// saved as `dtype`. Blocks until all files are synced.
[[nodiscard]] absl::Status SaveDecoder(const Decoder& model, const std::string& folder,
                                       const std::string& tokenizer_folder, torch::Dtype dtype);

}  // namespace distill
