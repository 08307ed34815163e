// What models drop in training, and that the same state of the generator drops the same.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <string>

#include "libdistill/core/threefry.h"
#include "libdistill/nn/attention.h"
#include "libdistill/nn/dropout.h"
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

// Random123's kat_vectors: threefry4x32 13.
TEST_CASE("the generator gives the known answers") {
  struct Known {
    uint32_t counter[4], key[4], answer[4];
  };
  constexpr uint32_t kOnes = 0xffffffff;
  const Known known[] = {
      {{0, 0, 0, 0}, {0, 0, 0, 0}, {0x531c7e4f, 0x39491ee5, 0x2c855a92, 0x3d6abf9a}},
      {{kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes, kOnes, kOnes}, {0xc4189358, 0x1c9cc83a, 0xd5881c67, 0x6a0a89e0}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0, 0x082efa98, 0xec4e6c89},
       {0x4aa71d8f, 0x734738c2, 0x431fc6a8, 0xae6debf1}}};
  for (const Known& k : known) {
    uint32_t words[4];
    std::copy(std::begin(k.counter), std::end(k.counter), words);
    Threefry(k.key, words);
    CHECK(std::equal(std::begin(words), std::end(words), k.answer));
  }
}

// Within five standard errors, of shares and of neighbours that are dropped together, which are p^2.
TEST_CASE("as much is dropped as was asked, whatever the neighbours are") {
  constexpr int64_t kElements = 1 << 20;
  for (const torch::Device& device : TestDevices()) {
    for (const double p : {0.001, 0.1, 0.5, 0.9}) {
      INFO(device << ", " << p);
      torch::manual_seed(3);
      const Tensor ones = torch::ones({kElements}, device);
      const Tensor kept = Dropout(ones, p), gone = (kept == 0).to(torch::kFloat64);
      const auto is_near = [&](const Tensor& share, double expected) {
        return std::abs(share.item<double>() - expected) <
               1.0 / (1 << 17) + 5 * std::sqrt(expected * (1 - expected) / kElements);
      };
      CHECK(is_near(gone.mean(), p));
      for (const int64_t apart : {1, 16, 128, 1000}) {
        CHECK(is_near((gone * gone.roll(apart)).mean(), p * p));
      }
      CHECK(is_near((gone * (Dropout(ones, p) == 0)).mean(), p * p));
      const Tensor largest = kept.max();
      CHECK(std::abs(largest.item<double>() * (1 - p) - 1) < 2e-4);
    }
  }
}

TEST_CASE("dropout with the probabilities 0 and 1, and outside of them") {
  for (const torch::Device& device : TestDevices()) {
    const Tensor x = torch::randn({3, 50}, device), y = torch::randn({3, 50}, device);
    CHECK(Dropout(x, 0).is_same(x));
    CHECK(torch::equal(Dropout(x, 1), torch::zeros_like(x)));
    CHECK(torch::equal(AddDropped(y, x, 0), y + x));
    CHECK(torch::equal(AddDropped(y, x, 1), y));
    CHECK_THROWS_WITH(Dropout(x, 1.5), Catch::Contains("probability"));
    CHECK(Dropout(torch::ones({0, 4}, device), 0.5).sizes() == x.new_empty({0, 4}).sizes());
  }
}

TEST_CASE("gradients pass through what is kept, as much larger, and through the residual as they are") {
  for (const torch::Device& device : TestDevices()) {
    for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
      INFO(device << ", " << dtype);
      torch::manual_seed(6);
      const auto options = torch::TensorOptions(device).dtype(dtype);
      const Tensor x = torch::ones({40, 33}, options).requires_grad_(),
                   y = torch::zeros({40, 33}, options).requires_grad_();
      const Tensor out = AddDropped(y, x.t().contiguous().t(), 0.5), g = torch::randn({40, 33}, options);
      out.backward(g);
      CHECK(torch::equal(x.grad(), (out.detach() * g).to(dtype)));
      CHECK(torch::equal(y.grad(), g));
    }
  }
}

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
