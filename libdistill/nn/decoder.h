// Decoder language models of the families of decoder_family.h, out of and into Hugging Face folders.
//
//   DISTILL_ASSIGN_OR_RETURN(auto model, LoadDecoder("models/teacher", {.dtype = torch::kBFloat16}));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/nn/decoder_config.h"
#include "libdistill/nn/gradient_sink.h"
#include "libdistill/nn/language_model.h"
#include "libdistill/nn/load_options.h"

namespace distill {

class KeyValueCache;
struct AttentionTraits;
struct RotaryAngles;

class Decoder : public LanguageModel, public GradientSinkUser {
 public:
  // Random float32 weights on the CPU: normal with the config's initializer_range, norms 1, biases 0 (as transformers
  // does). Equal seeds give equal weights. `blocks_later`: as in LoadOptions.
  explicit Decoder(const DecoderConfig& config, uint64_t seed = 42, bool blocks_later = false);
  ~Decoder() override;

  torch::Tensor Hidden(const TokenInput& input) override;
  // Beyond the last block's attention, nothing is done at other positions.
  torch::Tensor HiddenAt(const TokenInput& input, const torch::Tensor& positions) override;
  int64_t num_layers() const override { return config_.num_hidden_layers; }
  LayerStates StatesAt(const TokenInput& input, const torch::Tensor& positions,
                       const std::vector<int64_t>& layers) override;
  // The state of each row's last token, [B, H]. The rows, of any lengths, are documents that continue what `cache`
  // holds of them, and it holds them too then. For use without gradients.
  torch::Tensor LastHidden(const std::vector<std::vector<int32_t>>& tokens, KeyValueCache& cache);
  torch::Tensor head_weight() const override;
  torch::Tensor embedding_weight() const override;
  double logit_softcap() const override { return config_.logit_softcap; }
  std::vector<std::vector<torch::Tensor>> BlockWeights() const override;
  // Writes config.json (the original one with the dtype that was saved), model.safetensors, and copies of the tokenizer
  // files of `tokenizer_folder` (none when empty) into `folder`, which transformers' from_pretrained opens. Weights are
  // saved as `dtype`. Blocks until all files are synced. Unimplemented where the config came without its JSON.
  [[nodiscard]] absl::Status Save(const std::string& folder, const std::string& tokenizer_folder,
                                  torch::Dtype dtype) const override;
  bool saves_in_order() const override { return true; }
  const DecoderConfig& config() const { return config_; }
  // From then on training keeps each block's input alone and computes the block again in the backward pass: about a
  // third more time, a fraction of the memory for activations, the same bits.
  void EnableGradientCheckpointing() { checkpoints_ = true; }
  // From then on config().attention_dropout of the attention's probabilities are dropped in training (train(), which
  // modules are in until eval()), drawn from torch's default generator of the device.
  void EnableDropout() { drops_ = true; }

 private:
  struct Layers;
  // Weights that hold anything yet; on the device "meta" only their shapes.
  Decoder(const DecoderConfig& config, const torch::TensorOptions& options, bool blocks_later = false);
  friend std::shared_ptr<Decoder> DecoderShapes(const DecoderConfig&, torch::Dtype);
  friend std::shared_ptr<Decoder> DrawnDecoder(const DecoderConfig&, torch::Dtype, torch::Device);
  friend absl::StatusOr<std::shared_ptr<Decoder>> LoadDecoder(const std::string&, const LoadOptions&);
  // Layers whose states are asked for, beside those of the last one, and where: places in the flat order, [N].
  struct Taps {
    const std::vector<int64_t>& layers;
    torch::Tensor places;
    std::vector<torch::Tensor> states = {};

    void Take(int64_t layer, const torch::Tensor& x);
  };
  double AttentionDropout() const;
  std::shared_ptr<const TokenLayout> LayoutFor(const TokenInput& input) const;
  torch::Tensor Flat(const TokenInput& input, const std::shared_ptr<const TokenLayout>& layout,
                     const torch::Tensor& wanted, Taps* taps = nullptr);
  using BlockAttend = std::function<torch::Tensor(int64_t block, const torch::Tensor& query, const torch::Tensor& keys,
                                                  const torch::Tensor& values, const AttentionTraits& traits)>;
  torch::Tensor RunBlocks(torch::Tensor x, std::vector<RotaryAngles> angles, const torch::Tensor& wanted,
                          const BlockAttend& attend, bool recomputes, Taps* taps = nullptr) const;
  double ScaleOf(const torch::Tensor& x) const;

  DecoderConfig config_;
  bool checkpoints_ = false;
  bool drops_ = false;
  std::shared_ptr<Layers> layers_;
};

// A decoder whose parameters lie on the device "meta": their names, shapes and types, and no memory.
std::shared_ptr<Decoder> DecoderShapes(const DecoderConfig& config, torch::Dtype dtype);

// A decoder whose random weights are drawn where they lie, in `dtype`, from the device's own generator (seeded by
// torch::manual_seed): for benchmarks of models that a CPU would draw for a minute. Other devices draw other weights;
// throws as torch does where the device has no memory for them.
std::shared_ptr<Decoder> DrawnDecoder(const DecoderConfig& config, torch::Dtype dtype, torch::Device device);

// Parameters carry transformers' names ("model.layers.0.self_attn.q_proj.weight"). NotFound, DataLoss,
// InvalidArgument: file, tensor and both shapes are named.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Decoder>> LoadDecoder(const std::string& folder,
                                                                   const LoadOptions& options = {});

// A new decoder of the shape that FOLDER/config.json describes, with random weights from `seed` (the same on every
// device and, but for rounding, in every dtype); weights in the folder are not looked at.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Decoder>> CreateDecoder(const std::string& folder, uint64_t seed,
                                                                     const LoadOptions& options = {});

}  // namespace distill
