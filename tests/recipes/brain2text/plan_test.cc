// What a brain-to-text model is counted to take, against the model itself.
#include "examples/brain2text/plan.h"

#include <ATen/ops/ctc_loss.h>

#include "absl/strings/match.h"
#include "examples/brain2text/day_gru.h"
#include "tests/plan/counted_tensors.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

using torch::Tensor;

BrainModelOptions Small() {
  return {.n_input_features = 64,
          .n_units = 48,
          .n_layers = 2,
          .n_classes = 11,
          .rnn_dropout = 0.3,
          .input_layer_dropout = 0.2,
          .patch_size = 6,
          .patch_stride = 2,
          .sessions = "one,two,three"};
}

PlannedModel PlannedOf(const BrainModelOptions& options, int64_t bins, int64_t targets) {
  auto model = PlannedDayGru(options, bins, targets);
  INFO(model.status());
  REQUIRE(model.ok());
  return *std::move(model);
}

TEST_CASE("a planned brain-to-text model has the parameters of the model, in its order") {
  for (const bool bidirectional : {false, true}) {
    BrainModelOptions options = Small();
    options.bidirectional = bidirectional;
    const PlannedModel planned = PlannedOf(options, 100, 5);
    const DayGru model(options);
    const auto parameters = model.named_parameters();
    REQUIRE(planned.parameters.size() == parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      INFO(parameters[i].key());
      CHECK(planned.parameters[i].name == parameters[i].key());
      CHECK(planned.parameters[i].tensor.sizes() == parameters[i].value().sizes());
    }
  }
}

void CheckPasses(const BrainModelOptions& options) {
  INFO("patches of " << options.patch_size << ", smoothed " << options.smooth_data << ", dropout "
                     << options.input_layer_dropout);
  constexpr int64_t kTrials = 6, kBins = 120, kTargets = 8;
  const auto tensors = std::make_shared<Tensors>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, tensors);
  DayGru model(options);
  const Tensor features = torch::randn({kTrials, kBins, options.n_input_features});
  const Tensor lengths = torch::full({kTrials}, kBins, torch::kInt64), days = torch::arange(kTrials) % 3;
  const Tensor targets = torch::ones({kTrials, kTargets}, torch::kInt64);
  const Tensor of_targets = torch::full({kTrials}, kTargets, torch::kInt64);
  const PassMemory memory =
      PlannedOf(options, kBins, kTargets).memory({.tokens = kTrials * FramesOf(options, kBins), .drops = true});
  for (const bool measures : {false, true}) {  // what a first pass makes for all later ones does not count
    const int64_t before = tensors->now();
    {
      const torch::NoGradGuard no_grad;
      model.eval();
      tensors->StartAnew();
      const auto output = model.forward(features, lengths, days);
      if (measures) CheckNear("a pass without gradients", memory.forward_bytes, tensors->most() - before, 0.25);
      model.train();
    }
    const auto output = model.forward(features, lengths, days);
    const Tensor loss = at::ctc_loss(output.log_probabilities, targets, output.lengths, of_targets);
    if (measures) CheckNear("activations", memory.kept_bytes, tensors->now() - before, 0.05);
  }
}

TEST_CASE("a brain-to-text model's passes take what is counted") {
  CheckPasses(Small());
  BrainModelOptions options = Small();
  options.smooth_data = false;
  options.input_layer_dropout = 0;
  CheckPasses(options);
  options.patch_size = 0;
  CheckPasses(options);
}

TEST_CASE("each bin goes through the layer of its day, once") {
  const BrainModelOptions options = Small();
  const double frames = static_cast<double>(FramesOf(options, 100));
  const double day_layer = 2 * 64 * 64 * 100 / frames;
  const double of_gru = Planned(GruOf(options), 5).forward_flops(1);
  CHECK(PlannedOf(options, 100, 5).forward_flops(1) == Approx(of_gru + day_layer));
}

TEST_CASE("a trial shorter than a patch cannot be planned") {
  const auto model = PlannedDayGru(Small(), 5, 1);
  CHECK(absl::StrContains(model.status().message(), "trial_bins: 5 are fewer than patch_size, 6"));
}

}  // namespace
}  // namespace distill
