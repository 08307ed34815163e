// What models drop in training, and that the same state of the generator drops the same.
#include <functional>
#include <string>

#include "libdistill/nn/attention.h"
#include "libdistill/nn/encoder.h"
#include "libdistill/nn/encoder_heads.h"
#include "libdistill/nn/token_layout.h"
#include "libdistill/tensor/random_state.h"
#include "tests/nn/tiny_encoders.h"
#include "tests/nn/tiny_models.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

EncoderConfig DroppingEncoder() {
  EncoderConfig config = TinyEncoder(kTinyBert);
  config.hidden_dropout = 0.2;
  config.attention_dropout = 0.3;
  return config;
}

DecoderConfig DroppingDecoder() {
  DecoderConfig config = TinyConfig("llama");
  config.attention_dropout = 0.3;
  return config;
}

TokenInput Input(torch::Device device) {
  torch::manual_seed(4);
  return {torch::randint(61, {3, 16}, torch::kInt64).to(device), {{0, 5, 16}, {0, 16}, {0, 9}}};
}

// Every case for an encoder and for a decoder, each on every device.
void ForModels(const std::function<void(LanguageModel& model, LanguageModel& checkpointed, const TokenInput& input,
                                        const std::function<void()>& enable)>& check) {
  for (const torch::Device& device : TestDevices()) {
    Encoder encoder(DroppingEncoder()), checkpointed_encoder(DroppingEncoder());
    Decoder decoder(DroppingDecoder()), checkpointed_decoder(DroppingDecoder());
    for (LanguageModel* model :
         {static_cast<LanguageModel*>(&encoder), static_cast<LanguageModel*>(&checkpointed_encoder),
          static_cast<LanguageModel*>(&decoder), static_cast<LanguageModel*>(&checkpointed_decoder)}) {
      model->to(device);
    }
    checkpointed_encoder.EnableGradientCheckpointing();
    checkpointed_decoder.EnableGradientCheckpointing();
    const auto both = [](auto& one, auto& other) {
      return [&] {
        one.EnableDropout();
        other.EnableDropout();
      };
    };
    INFO(device);
    check(encoder, checkpointed_encoder, Input(device), both(encoder, checkpointed_encoder));
    check(decoder, checkpointed_decoder, Input(device), both(decoder, checkpointed_decoder));
  }
}

Tensor Seeded(LanguageModel& model, const TokenInput& input, uint64_t seed) {
  torch::manual_seed(seed);
  return model.Hidden(input).detach();
}

TEST_CASE("models drop in training alone, where they are asked to, and the same for the same seed") {
  ForModels([](LanguageModel& model, LanguageModel&, const TokenInput& input, const std::function<void()>& enable) {
    const Tensor plain = Seeded(model, input, 1);
    CHECK(torch::equal(plain, Seeded(model, input, 2)));
    enable();
    const Tensor dropped = Seeded(model, input, 1);
    CHECK_FALSE(torch::equal(dropped, plain));
    CHECK(torch::equal(dropped, Seeded(model, input, 1)));
    CHECK_FALSE(torch::equal(dropped, Seeded(model, input, 2)));
    model.eval();
    CHECK(torch::equal(plain, Seeded(model, input, 1)));
    model.train();
    CHECK(torch::equal(dropped, Seeded(model, input, 1)));
  });
}

TEST_CASE("what is dropped continues exactly from a saved state of the generator") {
  ForModels([](LanguageModel& model, LanguageModel&, const TokenInput& input, const std::function<void()>& enable) {
    enable();
    const torch::Device device = input.input_ids.device();
    (void)Seeded(model, input, 1);
    const Tensor state = RandomState(device);
    const Tensor first = model.Hidden(input), second = model.Hidden(input);
    CHECK_FALSE(torch::equal(first, second));
    SetRandomState(device, state);
    CHECK(torch::equal(model.Hidden(input), first));
    {
      const RandomStateScope elsewhere(device, state);
      CHECK(torch::equal(model.Hidden(input), first));
    }
    CHECK(torch::equal(model.Hidden(input), second));
  });
}

std::vector<Tensor> GradientsWithDropout(LanguageModel& model, const TokenInput& input) {
  torch::manual_seed(7);
  model.Hidden(input).sin().sum().backward();
  std::vector<Tensor> gradients;
  for (Tensor& parameter : model.parameters()) {
    gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : torch::zeros_like(parameter));
    parameter.mutable_grad().reset();
  }
  gradients.push_back(RandomState(input.input_ids.device()));  // the backward pass draws nothing that is seen later
  return gradients;
}

TEST_CASE("with checkpoints the same is dropped when a block is computed again") {
  ForModels([](LanguageModel& model, LanguageModel& checkpointed, const TokenInput& input,
               const std::function<void()>& enable) {
    enable();
    const std::vector<Tensor> expected = GradientsWithDropout(model, input),
                              actual = GradientsWithDropout(checkpointed, input);
    REQUIRE(expected.size() == actual.size());
    for (size_t i = 0; i < expected.size(); ++i) CHECK(torch::equal(expected[i], actual[i]));
  });
}

// Means of independent draws, within five standard errors of what there is without dropout.
void CheckMean(const std::function<Tensor()>& draw, const Tensor& expected) {
  constexpr int kDraws = 2000;
  Tensor sum = torch::zeros_like(expected, torch::kFloat64), squares = sum.clone();
  for (int i = 0; i < kDraws; ++i) {
    const Tensor value = draw().to(torch::kFloat64);
    sum += value;
    squares += value.square();
  }
  const Tensor mean = sum / kDraws;
  const Tensor error = (squares / kDraws - mean.square()).clamp_min(0).div(kDraws).sqrt() + 1e-6;
  CHECK(((mean - expected).abs() / error).max().item<double>() < 5);
}

TEST_CASE("what is left after dropout is as large as before in the mean") {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(9);
  const TokenInput input = {torch::randint(61, {1, 6}, torch::kInt64), {}};
  EncoderConfig config = DroppingEncoder();
  config.hidden_dropout = config.attention_dropout = 0;
  config.classifier_dropout = 0.4;  // before a linear layer, so that means pass through it
  SequenceClassifier model(config, /*labels=*/3);
  const Tensor plain = model.forward(input);
  model.EnableDropout();
  CheckMean([&] { return model.forward(input); }, plain);
  const auto layout = LayoutOf(input);
  const Tensor query = torch::randn({6, 2, 4}), keys = torch::randn({6, 2, 4}), values = torch::randn({6, 2, 4});
  for (const bool is_causal : {false, true}) {
    CheckMean([&] { return DocumentAttention(query, keys, values, *layout, is_causal, 0.3); },
              DocumentAttention(query, keys, values, *layout, is_causal));
  }
}

TEST_CASE("loaders enable dropout where they are told to") {
  const testing::TempFolder folder;
  REQUIRE(SequenceClassifier(DroppingEncoder(), 2).Save(folder.path(), "", torch::kFloat32).ok());
  const TokenInput input = Input(torch::kCPU);
  for (const bool drops : {false, true}) {
    const auto model = LoadClassifier(folder.path(), {}, {.dropout = drops}).value();
    CHECK(torch::equal(model->forward(input), model->forward(input)) == !drops);
  }
}

}  // namespace
}  // namespace distill
