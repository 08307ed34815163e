#include "libdistill/nn/gru.h"

#include <cmath>
#include <limits>

#include <ATen/ops/ctc_loss.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/utils/rnn.h>

#include "libdistill/nn/gru_recurrence.h"
#include "tests/support/catch.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using torch::Tensor;

const std::vector<int64_t> kFrames = {7, 2, 9, 1};

GruOptions TinyGru(bool is_bidirectional) {
  return {.features = 5, .hidden = 6, .layers = 3, .classes = 4, .dropout = 0.3, .is_bidirectional = is_bidirectional};
}

// The formulas of torch.nn.GRU, frame by frame: x [T, F] -> [T, H].
Tensor OneDirection(const Tensor& x, Tensor state, const std::map<std::string, Tensor>& weights,
                    const std::string& suffix, bool is_reverse) {
  const auto gates = [&](const Tensor& input, const std::string& kind) {
    return input.matmul(weights.at("weight_" + kind + suffix).t()).add(weights.at("bias_" + kind + suffix)).chunk(3);
  };
  std::vector<Tensor> states(x.size(0));
  for (int64_t i = 0; i < x.size(0); ++i) {
    const int64_t t = is_reverse ? x.size(0) - 1 - i : i;
    const auto of_input = gates(x[t], "ih_l0"), of_state = gates(state, "hh_l0");
    const Tensor reset = (of_input[0] + of_state[0]).sigmoid(), update = (of_input[1] + of_state[1]).sigmoid();
    const Tensor proposal = (of_input[2] + reset * of_state[2]).tanh();
    state = (1 - update) * proposal + update * state;
    states[t] = state;
  }
  return torch::stack(states);
}

// Without dropout, for one row without padding: [T, F] -> [T, C].
Tensor Reference(GruCtc& model, Tensor x) {
  const auto parameters = model.named_parameters();
  for (int64_t layer = 0; layer < model.options().layers; ++layer) {
    const std::string path = "layers." + std::to_string(layer) + ".";
    std::map<std::string, Tensor> weights;
    for (const auto& parameter : parameters) {
      if (parameter.key().rfind(path, 0) == 0) weights[parameter.key().substr(path.size())] = parameter.value();
    }
    const int64_t of_start = model.options().shares_initial_state ? 0 : layer;
    const Tensor starts = parameters["initial_states." + std::to_string(of_start)];
    std::vector<Tensor> directions = {OneDirection(x, starts[0], weights, "", /*is_reverse=*/false)};
    if (starts.size(0) == 2) directions.push_back(OneDirection(x, starts[1], weights, "_reverse", /*is_reverse=*/true));
    x = torch::cat(directions, 1);
  }
  return at::log_softmax(x.matmul(parameters["classifier.weight"].t()) + parameters["classifier.bias"], -1);
}

std::vector<Tensor> TakeGradients(GruCtc& model) {
  std::vector<Tensor> gradients;
  for (Tensor& parameter : model.parameters()) {
    gradients.push_back(parameter.grad().clone());
    parameter.mutable_grad().reset();
  }
  return gradients;
}

void CompareWithReference(bool is_bidirectional, bool shares, torch::Device device) {
  torch::manual_seed(2);
  GruOptions options = TinyGru(is_bidirectional);
  options.shares_initial_state = shares;
  GruCtc model(options);
  const int64_t starts = shares ? 1 : 3;
  REQUIRE(model.named_parameters().size() == static_cast<size_t>(3 * (is_bidirectional ? 8 : 4) + starts + 2));
  {
    const torch::NoGradGuard no_grad;
    for (int64_t i = 0; i < starts; ++i) model.named_parameters()["initial_states." + std::to_string(i)].normal_();
  }
  model.to(device);
  model.eval();
  const Tensor features = torch::randn({4, 9, 5}).to(device);
  Tensor padded = features.clone();  // rows know nothing of their padding
  for (int64_t row = 0; row < 4; ++row) {
    padded[row].narrow(0, kFrames[row], 9 - kFrames[row]).fill_(std::numeric_limits<float>::quiet_NaN());
  }
  const auto [log_probabilities, lengths] = model.forward(padded, torch::tensor(kFrames, torch::kInt64));
  REQUIRE(log_probabilities.sizes() == torch::IntArrayRef({9, 4, 4}));
  CHECK(torch::equal(lengths, torch::tensor(kFrames, torch::kInt64)));
  Tensor loss = torch::zeros({}, device), expected_loss = loss;
  for (int64_t row = 0; row < 4; ++row) {
    const Tensor actual = log_probabilities.select(1, row).narrow(0, 0, kFrames[row]);
    const Tensor expected = Reference(model, features[row].narrow(0, 0, kFrames[row]));
    CHECK(RelativeError(actual, expected) < 1e-4);
    loss = loss + actual.sin().sum();
    expected_loss = expected_loss + expected.sin().sum();
  }
  loss.backward();
  const std::vector<Tensor> gradients = TakeGradients(model);
  expected_loss.backward();
  const std::vector<Tensor> expected = TakeGradients(model);
  for (size_t i = 0; i < gradients.size(); ++i) CHECK(RelativeError(gradients[i], expected[i]) < 1e-3);
}

TEST_CASE("a GRU of several layers is the plain formulas on each row's frames, and so are its gradients") {
  for (const torch::Device& device : TestDevices()) {
    for (const bool is_bidirectional : {false, true}) {
      for (const bool shares : {false, true}) {
        INFO("bidirectional " << is_bidirectional << ", one initial state " << shares << ", on " << device);
        CompareWithReference(is_bidirectional, shares, device);
      }
    }
  }
}

// The states of one layer and the gradients of `weights` and the input, by torch's own module.
std::vector<Tensor> ByTorch(torch::nn::GRU& gru, const torch::nn::utils::rnn::PackedSequence& packed,
                            const Tensor& start) {
  const Tensor states = std::get<0>(gru->forward_with_packed_input(packed, start)).data();
  std::vector<Tensor> inputs = gru->parameters();
  inputs.insert(inputs.end(), {packed.data(), start});
  std::vector<Tensor> found = torch::autograd::grad({states.sin().sum()}, inputs);
  found.push_back(states);
  return found;
}

// The same by the sweep, for one direction, with all of them in `type`.
std::vector<Tensor> BySweep(torch::nn::GRU& gru, const torch::nn::utils::rnn::PackedSequence& packed,
                            const Tensor& start, torch::Dtype type) {
  const auto weights = gru->named_parameters();
  const auto typed = [&](const std::string& name) { return weights[name].to(type); };
  const Tensor of_frames = at::linear(packed.data().to(type), typed("weight_ih_l0"), typed("bias_ih_l0"));
  const GruSequence sequence = {.of_frames = of_frames,
                                .weight = typed("weight_hh_l0"),
                                .bias = typed("bias_hh_l0"),
                                .start = start[0].to(type),
                                .batch_sizes = packed.batch_sizes()};
  const Tensor states = RunGru(sequence);
  CHECK(states.scalar_type() == type);
  std::vector<Tensor> inputs = gru->parameters();
  inputs.insert(inputs.end(), {packed.data(), start});
  std::vector<Tensor> found = torch::autograd::grad({states.to(torch::kFloat32).sin().sum()}, inputs);
  found.push_back(states);
  const torch::NoGradGuard no_grad;  // nothing is kept
  CHECK(torch::equal(states, RunGru(sequence)));
  return found;
}

struct TypeAndTolerance {
  torch::Dtype type;
  double tolerance;
};

// Of values that bfloat16 can hold, so that errors are those of the sweep alone.
void CompareSweepWithTorch(int64_t hidden, const std::vector<int64_t>& frames, const TypeAndTolerance& of) {
  torch::nn::GRU gru(torch::nn::GRUOptions(3, hidden));
  const auto rounded = [](const Tensor& tensor) { return tensor.to(torch::kBFloat16).to(torch::kFloat32); };
  {
    const torch::NoGradGuard no_grad;
    for (Tensor& weight : gru->parameters()) weight.copy_(rounded(weight));
  }
  const auto rows = static_cast<int64_t>(frames.size());
  const Tensor features = rounded(torch::randn({rows, 9, 3})).requires_grad_();
  const auto packed = torch::nn::utils::rnn::pack_padded_sequence(features, torch::tensor(frames, torch::kInt64),
                                                                  /*batch_first=*/true, /*enforce_sorted=*/false);
  const Tensor start = rounded(torch::randn({1, rows, hidden})).requires_grad_();
  // torch's own puts the starts into the order of the packed rows.
  const Tensor sorted = start.index_select(1, packed.sorted_indices());
  const std::vector<Tensor> expected = ByTorch(gru, packed, start), actual = BySweep(gru, packed, sorted, of.type);
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO("number " << i);
    const bool is_start = i + 2 == expected.size();
    const Tensor wanted = is_start ? expected[i].index_select(1, packed.sorted_indices()) : expected[i];
    CHECK(RelativeError(actual[i].to(torch::kFloat32), wanted) < of.tolerance);
  }
}

TEST_CASE("one sweep a frame gives torch's states and gradients, for sizes that fill vectors and sizes that do not") {
  torch::manual_seed(5);
  for (const TypeAndTolerance& of :
       {TypeAndTolerance{torch::kFloat32, 1e-4}, {torch::kBFloat16, 2e-2}, {torch::kHalf, 5e-3}}) {
    for (const int64_t hidden : {1, 16, 19, 70}) {
      for (const std::vector<int64_t>& frames : {std::vector<int64_t>{1}, {5, 5, 5}, {9, 1, 4, 9, 2}}) {
        INFO(of.type << ", hidden " << hidden << ", " << frames.size() << " rows");
        CompareSweepWithTorch(hidden, frames, of);
      }
    }
  }
}

TEST_CASE("a GRU's second derivatives are refused, where they would be wrong") {
  GruCtc model(TinyGru(false));
  const Tensor features = torch::randn({2, 4, 5}).requires_grad_(), frames = torch::tensor({4, 3}, torch::kInt64);
  const Tensor sum = model.forward(features, frames).log_probabilities.sin().sum();
  CHECK_THROWS_WITH(torch::autograd::grad({sum}, {features}, {}, /*retain_graph=*/true, /*create_graph=*/true),
                    Catch::Contains("second derivatives"));
}

TEST_CASE("a GRU learns rows of different lengths by CTC") {
  GruCtc model({.features = 5, .hidden = 16, .layers = 2, .classes = 4, .is_bidirectional = true});
  torch::manual_seed(2);
  const Tensor features = torch::randn({4, 9, 5}), frames = torch::tensor(kFrames, torch::kInt64);
  const Tensor targets = torch::tensor({1, 2, 3, 1, 2, 2, 1, 3}, torch::kInt64);
  const Tensor target_lengths = torch::tensor({3, 1, 3, 1}, torch::kInt64);
  const auto loss_of = [&] {
    const auto [log_probabilities, lengths] = model.forward(features, frames);
    return at::ctc_loss(log_probabilities, targets, lengths, target_lengths);
  };
  const double before = loss_of().item<double>();
  for (int step = 0; step < 60; ++step) {
    loss_of().backward();
    const torch::NoGradGuard no_grad;
    for (Tensor& parameter : model.parameters()) {
      parameter.sub_(parameter.grad(), 0.2);
      parameter.mutable_grad().reset();
    }
  }
  CHECK(std::isfinite(before));
  CHECK(loss_of().item<double>() < before / 2);
}

TEST_CASE("equal seeds give equal GRUs, whoever draws beside them") {
  torch::manual_seed(1);
  const Tensor next = torch::rand({2});
  torch::manual_seed(1);
  GruCtc one(TinyGru(true), 3);
  CHECK(torch::equal(torch::rand({2}), next));
  GruCtc same(TinyGru(true), 3), other(TinyGru(true), 4);
  for (size_t i = 0; i < one.parameters().size(); ++i) {
    INFO(one.named_parameters()[i].key());
    CHECK(torch::equal(one.parameters()[i], same.parameters()[i]));
    const bool is_state = one.parameters()[i].abs().max().item<float>() == 0;  // which begin at 0
    CHECK(torch::equal(one.parameters()[i], other.parameters()[i]) == is_state);
  }
}

TEST_CASE("a GRU drops between its layers in training alone, the same for the same seed") {
  GruCtc model(TinyGru(false));
  const Tensor features = torch::randn({2, 4, 5}), frames = torch::tensor({4, 3}, torch::kInt64);
  const auto seeded = [&](uint64_t seed) {
    torch::manual_seed(seed);
    return model.forward(features, frames).log_probabilities;
  };
  const Tensor dropped = seeded(1);
  CHECK(torch::equal(dropped, seeded(1)));
  CHECK_FALSE(torch::equal(dropped, seeded(2)));
  model.eval();
  CHECK(torch::equal(seeded(1), seeded(2)));
  CHECK_FALSE(torch::equal(seeded(1), dropped));
}

TEST_CASE("a narrower GRU gives log-probabilities in float32") {
  GruCtc model(TinyGru(false));
  model.to(torch::kBFloat16);
  const Tensor features = torch::randn({2, 4, 5}), frames = torch::tensor({4, 3}, torch::kInt64);
  const Tensor log_probabilities = model.forward(features.to(torch::kBFloat16), frames).log_probabilities;
  CHECK(log_probabilities.scalar_type() == torch::kFloat32);
  CHECK(torch::allclose(log_probabilities.exp().sum(-1)[2], torch::ones({2}), 0, 1e-5));
}

TEST_CASE("a GRU refuses sizes, features and lengths that do not fit") {
  CHECK_THROWS_WITH(GruCtc({.features = 5, .hidden = 0, .classes = 2}), Catch::Contains("0 hidden numbers"));
  CHECK_THROWS_WITH(GruCtc({.features = 5, .hidden = 2, .classes = 2, .dropout = 2}), Catch::Contains("dropout"));
  GruCtc model(TinyGru(false));
  const Tensor features = torch::zeros({2, 4, 5});
  const auto with = [&](const Tensor& x, std::vector<int64_t> lengths) {
    return model.forward(x, torch::tensor(lengths, torch::kInt64));
  };
  CHECK_THROWS_WITH(with(torch::zeros({2, 4, 6}), {4, 4}), Catch::Contains("must be [B, T, 5]"));
  CHECK_THROWS_WITH(with(features, {4}), Catch::Contains("int64 [2]"));
  CHECK_THROWS_WITH(with(features, {5, 4}), Catch::Contains("within 1 and the 4 frames"));
  CHECK_THROWS_WITH(with(features, {0, 4}), Catch::Contains("within 1 and the 4 frames"));
}

}  // namespace
}  // namespace distill
