#include <filesystem>
#include <string>

#include "libdistill/loss/distillation_loss.h"
#include "tests/support/folders.h"
#include "tests/tensor/test_tensors.h"

namespace distill {
namespace {

using Tensors = std::map<std::string, torch::Tensor>;

constexpr double kTolerance = 1e-5;

void CheckCase(const Tensors& golden, const torch::Device& device, int64_t chunk_tokens) {
  const auto get = [&](const std::string& name) {
    const auto found = golden.find(name);
    return found == golden.end() ? torch::Tensor() : found->second.to(device, /*non_blocking=*/false, /*copy=*/true);
  };
  DistillationInputs inputs{.student_hidden = get("student_hidden"),
                            .student_weight = get("student_weight"),
                            .student_bias = get("student_bias"),
                            .teacher_hidden = get("teacher_hidden"),
                            .teacher_weight = get("teacher_weight"),
                            .teacher_bias = get("teacher_bias"),
                            .labels = get("labels")};
  std::vector<std::pair<std::string, torch::Tensor>> leaves = {{"grad.student_hidden", inputs.student_hidden},
                                                               {"grad.student_weight", inputs.student_weight}};
  if (inputs.student_bias.defined()) leaves.emplace_back("grad.student_bias", inputs.student_bias);
  for (auto& [name, leaf] : leaves) leaf.requires_grad_();
  const auto saved = golden.at("options").const_data_ptr<double>();
  DistillationOptions options{.temperature = saved[0],
                              .alpha = saved[1],
                              .beta = saved[3],
                              .chunk_tokens = chunk_tokens,
                              .vocabulary = static_cast<int64_t>(saved[2])};
  if (const auto number = static_cast<size_t>(saved[4]); number > 0) {
    options.divergence = NamesOf(Divergence())[number - 1].value;
  }
  if (saved[5] > 0) options.skew = saved[5];
  if (saved[6] > 0) options.top_k_logits = static_cast<int64_t>(saved[6]);
  const DistillationSums sums = DistillationLoss(inputs, options);
  CHECK(RelativeError(sums.loss, golden.at("loss")) < kTolerance);
  CHECK(RelativeError(sums.divergence, golden.at("divergence")) < kTolerance);
  CHECK(RelativeError(sums.ce, golden.at("ce")) < kTolerance);
  sums.loss.backward();
  for (const auto& [name, leaf] : leaves) {
    INFO(name);
    CHECK(RelativeError(leaf.grad(), golden.at(name)) < kTolerance);
  }
}

TEST_CASE("the chunked loss and its gradients are PyTorch's") {
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenFolder() + "/loss")) {
    const Tensors golden = ReadTensors(entry.path());
    for (const torch::Device& device : TestDevices()) {
      for (const int64_t chunk_tokens : {1, 7, 256}) {
        INFO(entry.path().string() << " on " << device << " in chunks of " << chunk_tokens);
        CheckCase(golden, device, chunk_tokens);
      }
    }
    ++cases;
  }
  CHECK(cases == 20);
}

}  // namespace
}  // namespace distill
