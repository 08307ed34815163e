// Whole models on packed rows of documents of several lengths, in the types that GPUs work in.
#include <cstdio>
#include <string>
#include <vector>

#include "libdistill/nn/decoder.h"
#include "libdistill/nn/decoder_memory.h"
#include "libdistill/nn/encoder.h"
#include "libdistill/nn/token_layout.h"
#include "libdistill/tensor/peak_memory.h"
#include "tests/nn/tiny_encoders.h"
#include "tests/nn/tiny_models.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

constexpr int64_t kRowTokens = 64;

TokenInput PackedInput(torch::Device device) {
  torch::manual_seed(5);
  return {torch::randint(61, {3, kRowTokens}, torch::kInt64).to(device), {{0, 5, 6, 30, 64}, {0, 64}, {0, 13, 13, 27}}};
}

// The states of all tokens but padding, and each weight's gradient, in float64 on the CPU.
std::vector<Tensor> StatesAndGradients(LanguageModel& model, const TokenInput& input) {
  const Tensor states = model.Hidden(input).flatten(0, 1);
  const Tensor real = torch::cat({states.narrow(0, 0, 2 * kRowTokens), states.narrow(0, 2 * kRowTokens, 27)});
  real.sin().sum().backward();
  std::vector<Tensor> all = {real.detach()};
  for (const Tensor& weight : model.parameters()) {
    if (weight.grad().defined()) all.push_back(weight.grad());
  }
  for (Tensor& tensor : all) tensor = tensor.to(torch::kCPU, torch::kFloat64);
  return all;
}

// A norm of a family of each kind: rounded in the middle, of 1 + weight, of each head's queries and keys or of all at
// once; gates by silu and by gelu; products of query, keys and values in one; windows and caps.
TEST_CASE("packed rows in narrow types give the states of float32 on a CPU, and near its gradients") {
  for (const std::string type :
       {"qwen2", "qwen3", "llama", "mistral", "smollm3", "olmo2", "phi3", "gemma2", "gemma3_text"}) {
    Decoder reference(TinyConfig(type), /*seed=*/3);
    const std::vector<Tensor> expected = StatesAndGradients(reference, PackedInput(torch::kCPU));
    for (const torch::Device& device : TestDevices()) {
      for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
        if (device.is_cpu() && dtype == torch::kFloat16) continue;  // which nobody trains in there
        INFO(type << ", " << dtype << " on " << device);
        Decoder model(TinyConfig(type), /*seed=*/3);
        model.to(device, dtype);
        const std::vector<Tensor> actual = StatesAndGradients(model, PackedInput(device));
        REQUIRE(actual.size() == expected.size());
        // Of two layers, each of some thirty roundings.
        const double tolerance = dtype == torch::kFloat32 ? 1e-4 : dtype == torch::kBFloat16 ? 0.1 : 0.015;
        for (size_t i = 0; i < actual.size(); ++i) {
          INFO("tensor " << i);
          CHECK((actual[i] - expected[i]).norm().item<double>() < tolerance * expected[i].norm().item<double>());
        }
      }
    }
  }
}

TEST_CASE("a layout in the batch's order gives the states and gradients of one that is sorted") {
  for (const std::string type : {"qwen2", "gemma2", "gemma3_text"}) {
    std::vector<std::vector<Tensor>> both;
    for (const bool in_order : {false, true}) {
      Decoder model(TinyConfig(type), /*seed=*/3);
      TokenInput input = PackedInput(torch::kCPU);
      input.layout = LayoutOf(input, in_order);
      CHECK(input.layout->positions.size(0) == (in_order ? 155 : 156));
      both.push_back(StatesAndGradients(model, input));
    }
    REQUIRE(both[0].size() == both[1].size());
    for (size_t i = 0; i < both[0].size(); ++i) CHECK(RelativeError(both[1][i], both[0][i]) < 1e-5);
  }
}

TEST_CASE("encoders see no padding, nor other documents, in narrow types") {
  for (const char* tiny : {kTinyBert, kTinyDistilBert}) {
    // Heads of 8 elements, which flash kernels take.
    const std::string config =
        absl::StrReplaceAll(tiny, {{"attention_heads\": 4", "attention_heads\": 3"}, {"n_heads\": 4", "n_heads\": 3"}});
    const auto states = [&](torch::Device device, torch::Dtype dtype, const TokenInput& input) {
      Encoder model(TinyEncoder(config), /*seed=*/3);
      model.to(device, dtype);
      model.eval();
      return model.Hidden(input).to(torch::kCPU, torch::kFloat64);
    };
    torch::manual_seed(6);
    const Tensor ids = torch::randint(61, {3, 32}, torch::kInt64);
    const std::vector<std::vector<int64_t>> starts = {{0, 32}, {0, 20}, {0, 5}};
    const Tensor expected = states(torch::kCPU, torch::kFloat32, {ids, starts});
    for (const torch::Device& device : TestDevices()) {
      const Tensor actual = states(device, torch::kBFloat16, {ids.to(device), starts});
      for (int64_t row = 0; row < 3; ++row) {
        const int64_t length = starts[row].back();
        const Tensor difference = (actual[row] - expected[row]).narrow(0, 0, length);
        CHECK(difference.norm().item<double>() < 0.05 * expected[row].narrow(0, 0, length).norm().item<double>());
      }
    }
  }
}

TEST_CASE("a pass on a GPU keeps what is counted, whatever the lengths of documents", "[on_gpu]") {
  if (!torch::cuda::is_available()) return static_cast<void>(std::printf("skipped: no GPU here\n"));
  const torch::Device gpu(torch::kCUDA, 0);
  DecoderConfig config = TinyConfig("llama");
  config.hidden_size = 512, config.intermediate_size = 1536, config.head_dim = 64;
  config.num_attention_heads = 8, config.num_key_value_heads = 2, config.num_hidden_layers = 6;
  const auto model = DrawnDecoder(config, torch::kBFloat16, gpu);
  const Tensor ids = torch::randint(61, {8, 1024}, torch::kInt64).to(gpu);
  for (const bool several_lengths : {false, true}) {
    TokenInput input{ids, {}};
    for (int64_t row = 0; several_lengths && row < 8; ++row) input.document_starts.push_back({0, 100 + row, 400, 1024});
    input.LayOut();
    for (const bool measures : {false, true}) {  // what a first pass makes for all later ones does not count
      const int64_t before = MemoryInUseBytes(gpu);
      const Tensor hidden = model->Hidden(input);
      const auto kept = static_cast<double>(MemoryInUseBytes(gpu) - before);
      const ModelPass pass = {
          .tokens = ids.numel(), .element_bytes = 2, .several_lengths = several_lengths, .on_gpu = true};
      INFO("several lengths " << several_lengths);
      if (measures) CHECK(kept == Approx(static_cast<double>(MemoryOf(config, pass).kept_bytes)).epsilon(0.05));
      hidden.sum().backward();
    }
    model->zero_grad();
  }
}

}  // namespace
}  // namespace distill
