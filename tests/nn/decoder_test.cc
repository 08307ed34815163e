#include "libdistill/nn/decoder.h"

#include "libdistill/nn/key_value_cache.h"
#include "tests/nn/tiny_models.h"
#include "tests/tensor/counting_allocator.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

constexpr double kTolerance = 1e-5;

Decoder MakeModel(torch::Device device, const std::string& model_type = "qwen2") {
  Decoder model(TinyConfig(model_type), /*seed=*/3);
  model.to(device);
  return model;
}

Tensor RandomIds(int64_t rows, int64_t tokens, torch::Device device) {
  torch::manual_seed(5);
  return torch::randint(61, {rows, tokens}, torch::kInt64).to(device);
}

TEST_CASE("weights drawn where they lie have the names, shapes and spread of those that a seed draws") {
  for (const torch::Device& device : TestDevices()) {
    for (const std::string type : {"qwen2", "gemma2"}) {
      const Decoder expected(TinyConfig(type), /*seed=*/3);
      const auto drawn = DrawnDecoder(TinyConfig(type), torch::kBFloat16, device);
      const auto parameters = drawn->named_parameters();
      REQUIRE(parameters.size() == expected.named_parameters().size());
      for (const auto& item : expected.named_parameters()) {
        INFO(type << " " << item.key());
        const Tensor weight = parameters[item.key()];
        CHECK((weight.sizes() == item.value().sizes() && weight.scalar_type() == torch::kBFloat16));
        CHECK(weight.device().type() == device.type());
        const Tensor here = weight.to(torch::kCPU, torch::kFloat32);
        if (weight.dim() < 2) {
          CHECK(torch::equal(here, item.value()));
        } else {
          const double ratio = (here.std() / item.value().std()).item<double>();
          CHECK((0.5 < ratio && ratio < 2));
        }
      }
      CHECK(drawn->Hidden({RandomIds(2, 8, device), {}}).isfinite().all().item<bool>());
    }
  }
}

TEST_CASE("documents of a packed row are as if each were alone, gradients included") {
  for (const torch::Device& device : TestDevices()) {
    Decoder model = MakeModel(device);
    const Tensor ids = RandomIds(3, 32, device);
    const std::vector<std::vector<int64_t>> starts = {{0, 5, 6, 20, 32}, {0, 32}, {0, 13, 13, 27}};
    const Tensor hidden = model.Hidden({ids, starts});
    CHECK(hidden.sizes() == c10::IntArrayRef({3, 32, 24}));
    Tensor packed_sum = torch::zeros({}, device), alone_sum = torch::zeros({}, device);
    for (size_t row = 0; row < starts.size(); ++row) {
      for (size_t i = 0; i + 1 < starts[row].size(); ++i) {
        const int64_t begin = starts[row][i], length = starts[row][i + 1] - begin;
        if (length == 0) continue;
        const auto index = static_cast<int64_t>(row);
        const Tensor alone = model.Hidden({ids.narrow(0, index, 1).narrow(1, begin, length), {}});
        const Tensor packed = hidden.narrow(0, index, 1).narrow(1, begin, length);
        CHECK(RelativeError(packed, alone) < kTolerance);
        packed_sum = packed_sum + packed.sin().sum();
        alone_sum = alone_sum + alone.sin().sum();
      }
    }
    packed_sum.backward();
    std::vector<Tensor> gradients;
    for (Tensor& parameter : model.parameters()) {
      gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : Tensor());
      parameter.mutable_grad().reset();
    }
    alone_sum.backward();
    const auto parameters = model.named_parameters();
    for (size_t i = 0; i < gradients.size(); ++i) {
      INFO(parameters[i].key());
      CHECK(gradients[i].defined() == parameters[i].value().grad().defined());
      if (gradients[i].defined()) CHECK(RelativeError(gradients[i], parameters[i].value().grad()) < kTolerance);
    }
  }
}

std::vector<Tensor> GradientsOf(Decoder& model, const TokenInput& input) {
  model.Hidden(input).sin().sum().backward();
  std::vector<Tensor> gradients;
  for (Tensor& parameter : model.parameters()) {
    gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : Tensor());
    parameter.mutable_grad().reset();
  }
  return gradients;
}

TEST_CASE("an input that was laid out before is as one that each model lays out") {
  for (const torch::Device& device : TestDevices()) {
    Decoder model = MakeModel(device);
    for (const auto& starts : std::vector<std::vector<std::vector<int64_t>>>{{}, {{0, 16, 31}, {0, 32}, {0, 13, 13}}}) {
      TokenInput input{RandomIds(3, 32, device), starts};
      const Tensor expected = model.Hidden(input);
      CHECK(input.tensors().size() == 1);
      input.LayOut();
      const size_t least = starts.empty() ? 3 : 6;  // GPUs that attend to all lengths at once have another layout
      CHECK((device.is_cpu() ? input.tensors().size() == least : input.tensors().size() >= least));
      for (const Tensor& tensor : input.tensors()) CHECK(tensor.device() == device);
      const auto layout = input.layout;
      CHECK(torch::equal(model.Hidden(input), expected));
      input.LayOut();
      CHECK(input.layout == layout);  // as it was
    }
  }
}

TEST_CASE("with checkpoints gradients are the same bits, also above a frozen embedding") {
  for (const torch::Device& device : TestDevices()) {
    for (const bool is_frozen : {false, true}) {
      Decoder plain = MakeModel(device), checkpointed = MakeModel(device);
      checkpointed.EnableGradientCheckpointing();
      for (Decoder* model : {&plain, &checkpointed}) model->embedding_weight().requires_grad_(!is_frozen);
      const TokenInput input = {RandomIds(3, 32, device), {{0, 5, 6, 20, 32}, {0, 32}, {0, 13, 13, 27}}};
      const std::vector<Tensor> expected = GradientsOf(plain, input), actual = GradientsOf(checkpointed, input);
      REQUIRE(expected.size() == actual.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        INFO(plain.named_parameters()[i].key() << " on " << device << (is_frozen ? ", embedding frozen" : ""));
        REQUIRE(expected[i].defined() == actual[i].defined());
        if (expected[i].defined()) CHECK(torch::equal(expected[i], actual[i]));
      }
      const torch::NoGradGuard no_grad;
      CHECK(torch::equal(plain.Hidden(input), checkpointed.Hidden(input)));
    }
  }
}

TEST_CASE("states at some positions are rows of all of them, gradients included") {
  const Tensor ids = RandomIds(3, 32, torch::kCPU);
  const Tensor few = torch::tensor({4, 19, 20, 31, 32, 66, 90}, torch::kInt64);
  for (const bool packed : {false, true}) {
    TokenInput input = {ids, {}};
    if (packed) input.document_starts = {{0, 5, 6, 20, 32}, {0, 32}, {0, 13, 13, 27}};
    for (const bool checkpoints : {false, true}) {
      for (const Tensor& positions : {few, few.narrow(0, 0, 1), few.narrow(0, 0, 0), torch::arange(96)}) {
        INFO((packed ? "packed" : "whole rows") << (checkpoints ? ", checkpoints, " : ", ") << positions.size(0));
        Decoder model = MakeModel(torch::kCPU);
        if (checkpoints) model.EnableGradientCheckpointing();
        std::vector<Tensor> results[2];
        for (const bool at : {false, true}) {
          const Tensor states =
              at ? model.HiddenAt(input, positions) : model.Hidden(input).flatten(0, 1).index_select(0, positions);
          results[at].push_back(states.detach());
          (states.sin() * torch::arange(1, positions.size(0) + 1).unsqueeze(1)).sum().backward();
          for (Tensor& parameter : model.parameters()) {
            results[at].push_back(parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter));
            parameter.mutable_grad().reset();
          }
        }
        for (size_t i = 0; i < results[0].size(); ++i) {
          REQUIRE(results[1][i].sizes() == results[0][i].sizes());
          if (results[0][i].abs().sum().item<double>() > 0) {
            CHECK(RelativeError(results[1][i], results[0][i]) < kTolerance);
          } else {
            CHECK(results[1][i].abs().sum().item<double>() == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("with checkpoints a block's input is all that stays until its backward") {
  constexpr int64_t kRows = 4, kTokens = 64;
  DecoderConfig config = TinyConfig("qwen2");
  config.num_hidden_layers = 6;
  size_t kept[2];
  for (const bool checkpoints : {false, true}) {
    Decoder model(config, /*seed=*/3);
    if (checkpoints) model.EnableGradientCheckpointing();
    const CountingAllocator allocator;
    const Tensor hidden = model.Hidden({RandomIds(kRows, kTokens, torch::kCPU), {}});
    kept[checkpoints] = allocator.alive_bytes();
  }
  const size_t input_bytes = kRows * kTokens * static_cast<size_t>(config.hidden_size) * sizeof(float);
  // Inputs of six blocks, what the last norm keeps, its output, ids and rotary tables.
  CHECK(kept[1] < 11 * input_bytes);
  CHECK(kept[0] > 3 * kept[1]);
}

TEST_CASE("a GPU computes the hidden states and gradients of the CPU") {
  const TokenInput input{RandomIds(3, 40, torch::kCPU), {{0, 12, 40}, {0, 40}, {0, 9, 31}}};
  for (const std::string type : {"qwen2", "llama"}) {
    Decoder reference = MakeModel(torch::kCPU, type);
    const Tensor expected = reference.Hidden(input).narrow(1, 0, 31);
    expected.sin().sum().backward();
    for (const torch::Device& device : TestDevices()) {
      if (device.is_cpu()) continue;
      Decoder model = MakeModel(device, type);
      const Tensor actual = model.Hidden({input.input_ids.to(device), input.document_starts}).narrow(1, 0, 31);
      CHECK(RelativeError(actual, expected) < 10 * kTolerance);
      actual.sin().sum().backward();
      const auto parameters = model.named_parameters();
      for (const auto& parameter : reference.named_parameters()) {
        if (!parameter.value().grad().defined()) continue;  // the head's, of which hidden states know nothing
        INFO(type << " " << parameter.key());
        CHECK(RelativeError(parameters[parameter.key()].grad(), parameter.value().grad()) < 10 * kTolerance);
      }
    }
  }
}

TEST_CASE("what lies in the padding changes nothing, and no token sees a later one") {
  Decoder model = MakeModel(torch::kCPU, "llama");
  const Tensor ids = RandomIds(2, 16, torch::kCPU);
  Tensor other = ids.clone();
  other.narrow(1, 10, 6).fill_(1);
  const torch::NoGradGuard no_grad;
  for (const std::vector<std::vector<int64_t>>& starts :
       {std::vector<std::vector<int64_t>>{{0, 10}, {0, 3}}, std::vector<std::vector<int64_t>>{}}) {
    const Tensor one = model.Hidden({ids, starts}), two = model.Hidden({other, starts});
    CHECK(RelativeError(two.narrow(1, 0, 3), one.narrow(1, 0, 3)) < kTolerance);
    CHECK(RelativeError(two[0].narrow(0, 0, 10), one[0].narrow(0, 0, 10)) < kTolerance);
  }
}

TEST_CASE("a change of one document does not reach its neighbours") {
  Decoder model = MakeModel(torch::kCPU);
  const Tensor ids = RandomIds(1, 30, torch::kCPU);
  Tensor other = ids.clone();
  other.narrow(1, 10, 10).fill_(2);
  const TokenInput before{ids, {{0, 10, 20, 30}}}, after{other, {{0, 10, 20, 30}}};
  const torch::NoGradGuard no_grad;
  const Tensor one = model.Hidden(before), two = model.Hidden(after);
  CHECK(torch::equal(one.narrow(1, 0, 10), two.narrow(1, 0, 10)));
  CHECK(torch::equal(one.narrow(1, 20, 10), two.narrow(1, 20, 10)));
  CHECK_FALSE(torch::equal(one.narrow(1, 10, 10), two.narrow(1, 10, 10)));
}

std::vector<int32_t> IdsOf(const Tensor& ids, int64_t row, int64_t first, int64_t count) {
  const Tensor part = ids[row].narrow(0, first, count).to(torch::kCPU).to(torch::kInt32).contiguous();
  return {part.const_data_ptr<int32_t>(), part.const_data_ptr<int32_t>() + count};
}

TEST_CASE("tokens through a cache, in pieces of any size for each row, are as if they came at once") {
  // How many tokens each of the three rows gets in each pass.
  const std::vector<std::vector<std::vector<int64_t>>> cases = {
      {{7, 7, 7}, {1, 1, 1}, {60, 60, 60}, {1, 1, 1}, {20, 20, 20}},
      {{30, 2, 7}, {1, 1, 1}, {1, 1, 1}, {40, 3, 1}, {1, 60, 2}, {1, 1, 1}},
      {{1, 1, 1}, {1, 2, 70}, {1, 1, 1}},
  };
  for (const torch::Device& device : TestDevices()) {
    Decoder model = MakeModel(device);
    const Tensor ids = RandomIds(3, 90, device);
    const torch::NoGradGuard no_grad;
    const Tensor whole = model.Hidden({ids, {}});
    for (const auto& passes : cases) {
      KeyValueCache cache(model.config());
      std::vector<int64_t> lengths = {0, 0, 0};
      for (const std::vector<int64_t>& counts : passes) {
        std::vector<std::vector<int32_t>> tokens;
        for (int64_t row = 0; row < 3; ++row) tokens.push_back(IdsOf(ids, row, lengths[row], counts[row]));
        const Tensor last = model.LastHidden(tokens, cache);
        for (int64_t row = 0; row < 3; ++row) {
          lengths[row] += counts[row];
          INFO("row " << row << " after " << lengths[row] << " tokens");
          CHECK(RelativeError(last[row], whole[row][lengths[row] - 1]) < kTolerance);
        }
        CHECK(cache.lengths() == lengths);
      }
    }
  }
}

TEST_CASE("a row that is dropped leaves its place to the last one, and no memory is taken for that") {
  Decoder model = MakeModel(torch::kCPU);
  const Tensor ids = RandomIds(4, 40, torch::kCPU);
  const torch::NoGradGuard no_grad;
  const Tensor whole = model.Hidden({ids, {}});
  KeyValueCache cache(model.config());
  model.LastHidden({IdsOf(ids, 0, 0, 20), IdsOf(ids, 1, 0, 5), IdsOf(ids, 2, 0, 9), IdsOf(ids, 3, 0, 3)}, cache);
  {
    const CountingAllocator memory;
    cache.DropRow(0);
    cache.DropRow(2);
    CHECK(memory.peak_bytes() == 0);
  }
  CHECK(cache.lengths() == std::vector<int64_t>{3, 5});
  const Tensor last = model.LastHidden({IdsOf(ids, 3, 3, 30), IdsOf(ids, 1, 5, 1)}, cache);
  CHECK(RelativeError(last[0], whole[3][32]) < kTolerance);
  CHECK(RelativeError(last[1], whole[1][5]) < kTolerance);
  CHECK_THROWS_AS(model.LastHidden({{1}}, cache), c10::Error);
  CHECK_THROWS_AS(model.LastHidden({{1}, {}}, cache), c10::Error);
}

TEST_CASE("bfloat16 is float32 but for its rounding, and gradients keep their dtype") {
  for (const torch::Device& device : TestDevices()) {
    Decoder wide = MakeModel(device), narrow = MakeModel(device);
    narrow.to(torch::kBFloat16);
    const TokenInput input{RandomIds(2, 24, device), {{0, 11, 24}, {0, 20}}};
    const Tensor expected = wide.Hidden(input).narrow(1, 0, 20), actual = narrow.Hidden(input).narrow(1, 0, 20);
    CHECK(actual.scalar_type() == torch::kBFloat16);
    CHECK(RelativeError(actual, expected) < 5e-2);
    actual.sum().backward();
    CHECK(narrow.named_parameters()["model.layers.0.input_layernorm.weight"].grad().scalar_type() == torch::kBFloat16);
  }
}

TEST_CASE("a batch without tokens gives no hidden states") {
  Decoder model = MakeModel(torch::kCPU);
  CHECK(model.Hidden({torch::empty({0, 5}, torch::kInt64), {}}).sizes() == c10::IntArrayRef({0, 5, 24}));
  CHECK(model.Hidden({torch::zeros({2, 5}, torch::kInt64), {{0, 0}, {0}}}).sizes() == c10::IntArrayRef({2, 5, 24}));
}

TEST_CASE("document starts that do not fit the batch are refused") {
  Decoder model = MakeModel(torch::kCPU);
  const Tensor ids = RandomIds(1, 8, torch::kCPU);
  CHECK_THROWS_AS(model.Hidden({ids, {{0, 9}}}), c10::Error);
  CHECK_THROWS_AS(model.Hidden({ids, {{4, 2}}}), c10::Error);
  CHECK_THROWS_AS(model.Hidden({ids, {{0, 8}, {0, 8}}}), c10::Error);
  CHECK_THROWS_AS(model.Hidden({ids.to(torch::kInt32), {}}), c10::Error);
}

}  // namespace
}  // namespace distill
