// Against transformers' logits processors: tests/golden/sampling_golden.py says what the tensors are.
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "libdistill/nn/generate.h"
#include "tests/nn/golden_models.h"
#include "tests/support/folders.h"

namespace distill {
namespace {

using torch::Tensor;

SamplingOptions OptionsOf(const Tensor& values) {
  const double* v = values.const_data_ptr<double>();
  return {.temperature = v[0],
          .top_k = static_cast<int64_t>(v[1]),
          .top_p = v[2],
          .min_p = v[3],
          .repetition_penalty = v[4]};
}

TEST_CASE("the tokens that may be drawn, and their probabilities, are those of transformers") {
  const auto golden = ReadTensors(GoldenFolder() + "/sampling.safetensors");
  int64_t cases = 0;
  for (; golden.contains(absl::StrCat("logits.", cases)); ++cases) {
    const auto of = [&](const char* name) { return golden.at(absl::StrCat(name, ".", cases)).contiguous(); };
    const SamplingOptions options = OptionsOf(of("options"));
    INFO("case " << cases << ": temperature " << options.temperature << ", top_k " << options.top_k << ", top_p "
                 << options.top_p << ", min_p " << options.min_p << ", repetition_penalty "
                 << options.repetition_penalty);
    CHECK(CheckSampling(options).ok());
    const Tensor ids = of("ids");
    Tensor logits = of("logits").clone().unsqueeze(0);
    PenaliseRepetition({{ids.const_data_ptr<int32_t>(), ids.const_data_ptr<int32_t>() + ids.numel()}},
                       options.repetition_penalty, logits);
    const absl::Span<const float> row(logits.const_data_ptr<float>(), logits.numel());
    Tensor found = torch::zeros_like(logits[0], torch::kFloat64);
    for (const TokenProbability& token : SamplingDistribution(row, options)) found[token.id] = token.probability;
    const Tensor expected = of("probabilities").to(torch::kFloat64);
    CHECK(torch::equal(found > 0, expected > 0));
    CHECK((found - expected).abs().max().item<double>() < 1e-6);
  }
  CHECK(cases == 39);
}

}  // namespace
}  // namespace distill
