// What encoders' and recurrent networks' passes are counted to take, against what LibTorch's allocator is asked for.
#include <ATen/ops/ctc_loss.h>

#include <memory>

#include "libdistill/nn/encoder.h"
#include "libdistill/nn/encoder_heads.h"
#include "libdistill/nn/gru.h"
#include "libdistill/plan/planned_model.h"
#include "tests/plan/counted_tensors.h"
#include "tests/support/catch.h"

namespace distill::family_memory {
namespace {

using torch::Tensor;

EncoderConfig Shape(const std::string& type, int64_t hidden, int64_t layers) {
  EncoderConfig config;
  config.model_type = type;
  config.vocab_size = 6000;
  config.hidden_size = hidden;
  config.intermediate_size = 4 * hidden;
  config.num_hidden_layers = layers;
  config.num_attention_heads = 4;
  config.type_vocab_size = type == "bert" ? 2 : 0;
  return config;
}

struct Case {
  std::string type = "bert";
  EncoderUse use = EncoderUse::kWords;
  torch::Dtype dtype = torch::kFloat32;
  bool recomputes = false, several_lengths = false, drops = false;
  int64_t hidden = 256;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.type << " of width " << c.hidden << ", head " << static_cast<int>(c.use) << ", " << c.dtype
             << ", recomputes " << c.recomputes << ", several lengths " << c.several_lengths << ", drops " << c.drops;
}

// A model, and what the loss takes of it.
struct Made {
  std::shared_ptr<torch::nn::Module> module;
  std::function<Tensor(const TokenInput&)> forward;
};

template <class Model>
void Prepare(Model& model, const Case& c) {
  model.to(c.dtype);
  if (c.recomputes) model.EnableGradientCheckpointing();
  if (c.drops) model.EnableDropout();
  model.train();
}

Made Make(const Case& c, const EncoderConfig& config) {
  if (c.use == EncoderUse::kWords) {
    const auto model = std::make_shared<Encoder>(config);
    Prepare(*model, c);
    return {model, [model](const TokenInput& input) { return model->HeadInput(model->Hidden(input)); }};
  }
  if (c.use == EncoderUse::kSpan) {
    const auto model = std::make_shared<SpanModel>(config);
    Prepare(*model, c);
    return {model, [model](const TokenInput& input) { return model->forward(input); }};
  }
  const auto model = std::make_shared<SequenceClassifier>(config, /*labels=*/2);
  Prepare(*model, c);
  return {model, [model](const TokenInput& input) { return model->forward(input); }};
}

void CheckCase(const Case& c) {
  INFO(c);
  constexpr int64_t kRows = 4, kLength = 128, kTokens = kRows * kLength;
  const auto tensors = std::make_shared<Tensors>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, tensors);
  const EncoderConfig config = Shape(c.type, c.hidden, 3);
  const Made made = Make(c, config);
  TokenInput input{torch::full({kRows, kLength}, 5, torch::kInt64), {}};
  for (int64_t row = 0; row < kRows; ++row) input.document_starts.push_back({0, kLength});
  if (c.several_lengths) input.document_starts[0] = {0, 50, kLength};
  const ModelPass pass = {.tokens = kTokens,
                          .element_bytes = static_cast<int64_t>(torch::elementSize(c.dtype)),
                          .several_lengths = c.several_lengths,
                          .recomputes = c.recomputes,
                          .scratch = ScratchOnCpu(c.dtype),
                          .drops = c.drops,
                          .drops_in_float32 = c.dtype == torch::kFloat16};
  const PlannedModel planned = Planned(config, c.use);
  const PassMemory memory = planned.memory(pass);
  ModelPass plain = pass;
  plain.recomputes = plain.drops = false;
  const double wide = c.hidden < 100 ? 2 : 1;  // of tiny models what is not counted is more
  for (const bool measures : {false, true}) {  // what a first pass makes for all later ones does not count
    const int64_t before = tensors->now();
    if (!c.drops) {
      const torch::NoGradGuard no_grad;
      tensors->StartAnew();
      const Tensor output = made.forward(input);
      const int64_t planned_bytes = planned.memory(plain).forward_bytes;
      if (measures) CheckNear("a pass without gradients", planned_bytes, tensors->most() - before, 0.1 * wide);
    }
    {
      const Tensor output = made.forward(input);
      if (measures) CheckNear("activations", memory.kept_bytes, tensors->now() - before, 0.04 * wide);
      tensors->StartAnew();
      output.sum().backward();
      // Gradients of weights stay here, which go into buckets in a run; the embedding's comes last.
      const int64_t gradients = planned.elements() * pass.element_bytes;
      if (measures && !c.recomputes) {
        CheckNear("the backward pass", std::max(memory.kept_bytes + memory.backward_bytes, gradients),
                  tensors->most() - before, 0.3);
      }
    }
    for (const Tensor& parameter : made.module->parameters()) parameter.mutable_grad() = Tensor();
  }
}

TEST_CASE("an encoder's passes take what is counted, with each head, of tiny and larger models") {
  for (const char* type : {"bert", "distilbert"}) {
    for (const EncoderUse use : {EncoderUse::kWords, EncoderUse::kClass, EncoderUse::kSpan}) {
      CheckCase({.type = type, .use = use});
    }
    CheckCase({.type = type, .several_lengths = true});
    CheckCase({.type = type, .recomputes = true});
    CheckCase({.type = type, .drops = true});
    CheckCase({.type = type, .dtype = torch::kBFloat16});
    CheckCase({.type = type, .dtype = torch::kBFloat16, .drops = true});
    CheckCase({.type = type, .dtype = torch::kFloat16, .drops = true});
    CheckCase({.type = type, .hidden = 48});
  }
}

void CheckGru(const GruOptions& options, int64_t rows, int64_t frames) {
  INFO(options.hidden << " hidden, " << options.layers << " layers, bidirectional " << options.is_bidirectional
                      << ", dropout " << options.dropout);
  const auto tensors = std::make_shared<Tensors>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, tensors);
  constexpr int64_t kTargets = 10;
  GruCtc model(options);
  const Tensor features = torch::randn({rows, frames, options.features});
  const Tensor lengths = torch::full({rows}, frames, torch::kInt64);
  const Tensor targets = torch::ones({rows, kTargets}, torch::kInt64);
  const Tensor of_targets = torch::full({rows}, kTargets, torch::kInt64);
  const PlannedModel planned = Planned(options, kTargets);
  const PassMemory memory = planned.memory({.tokens = rows * frames, .drops = true});
  for (const bool measures : {false, true}) {
    const int64_t before = tensors->now();
    {
      const torch::NoGradGuard no_grad;
      model.eval();
      tensors->StartAnew();
      const auto output = model.forward(features, lengths);
      if (measures) CheckNear("a pass without gradients", memory.forward_bytes, tensors->most() - before, 0.2);
      model.train();
    }
    {
      const auto output = model.forward(features, lengths);
      const Tensor loss = at::ctc_loss(output.log_probabilities, targets, lengths, of_targets);
      if (measures) CheckNear("activations", memory.kept_bytes, tensors->now() - before, 0.05);
      tensors->StartAnew();
      loss.backward();
      if (measures) {
        CheckNear("the backward pass", memory.kept_bytes + memory.backward_bytes, tensors->most() - before, 0.2);
      }
    }
    for (const Tensor& parameter : model.parameters()) parameter.mutable_grad() = Tensor();
  }
}

TEST_CASE("a recurrent network's passes take what is counted") {
  CheckGru({.features = 128, .hidden = 96, .layers = 3, .classes = 41}, 8, 100);
  CheckGru({.features = 128, .hidden = 96, .layers = 3, .classes = 41, .dropout = 0.4}, 8, 100);
  CheckGru({.features = 256, .hidden = 64, .layers = 2, .classes = 300, .dropout = 0.4, .is_bidirectional = true}, 8,
           100);
}

std::vector<std::string> Named(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& item : module.named_parameters()) {
    names.push_back(item.key() + " " + c10::str(item.value().sizes()));
  }
  return names;
}

std::vector<std::string> Named(const PlannedModel& model) {
  std::vector<std::string> names;
  for (const TrainedParameter& parameter : model.parameters) {
    names.push_back(parameter.name + " " + c10::str(parameter.tensor.sizes()));
  }
  return names;
}

TEST_CASE("a planned model has the parameters of the model, in its order") {
  for (const bool is_bidirectional : {false, true}) {
    const GruOptions options{
        .features = 5, .hidden = 6, .layers = 3, .classes = 4, .is_bidirectional = is_bidirectional};
    CHECK(Named(Planned(options, 2)) == Named(GruCtc(options)));
  }
  const GruOptions shared{.features = 5, .hidden = 6, .layers = 3, .classes = 4, .shares_initial_state = true};
  CHECK(Named(Planned(shared, 2)) == Named(GruCtc(shared)));
  const EncoderConfig config = Shape("bert", 48, 2);
  CHECK(Named(Planned(config, EncoderUse::kWords)) == Named(Encoder(config)));
  CHECK(Named(Planned(config, EncoderUse::kClass, 7)) == Named(SequenceClassifier(config, 7)));
  CHECK(Named(Planned(config, EncoderUse::kSpan)) == Named(SpanModel(config)));
  const PlannedModel planned = Planned(config, EncoderUse::kWords);
  REQUIRE(planned.blocks.size() == 2);
  CHECK(std::count(planned.block_of.begin(), planned.block_of.end(), 1) == 16);
}

TEST_CASE("a token's operations are counted out of the products that it goes through") {
  // Two layers of width 48, feed-forward part 192: 4 squares and 2 products of 4 squares each; the head's transform and
  // the head. Attention: 4 operations a layer, number and token.
  const double square = 48 * 48, layers = 2 * (4 + 8) * square, attention = 4.0 * 2 * 48 * 10;
  const EncoderConfig config = Shape("bert", 48, 2);
  CHECK(Planned(config, EncoderUse::kWords).forward_flops(10) == 2 * (layers + square + 6000 * 48) + attention);
  CHECK(Planned(config, EncoderUse::kSpan).forward_flops(10) == 2 * (layers + 2 * 48) + attention);
  // A classifier's head sees one token in 10.
  CHECK(Planned(config, EncoderUse::kClass, 3).forward_flops(10) ==
        Approx(2 * (layers + (square + 3 * 48) / 10) + attention));
  PlannedModel gru = Planned(GruOptions{.features = 5, .hidden = 6, .layers = 2, .classes = 4}, 2);
  CHECK(gru.forward_flops(10) == 2 * (18 * (5 + 6) + 18 * (6 + 6) + 4 * 6));
  AddParameter(gru, "day_weights.0", {5, 5}, /*multiplied=*/0.5);
  CHECK(gru.forward_flops(10) == 2 * (18 * (5 + 6) + 18 * (6 + 6) + 4 * 6) + 25);
  CHECK(gru.parameters.back().name == "day_weights.0");
}

}  // namespace
}  // namespace distill::family_memory
