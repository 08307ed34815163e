#include "libdistill/data/epochs.h"

#include <torch/nn/modules/linear.h>

#include "libdistill/core/random.h"
#include "libdistill/data/token_dataset.h"
#include "libdistill/task/make_task.h"
#include "libdistill/train/trainer.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

// Epochs of 4, 6, 5, 5, ... steps.
EpochCounter Uneven() {
  return EpochCounter([](int64_t epoch) { return epoch == 0 ? 4 : epoch == 1 ? 6 : 5; });
}

}  // namespace

TEST_CASE("the steps of a run are the sum over its epochs, the last one perhaps in part") {
  CHECK(Uneven().StepsOf(1) == 4);
  CHECK(Uneven().StepsOf(2) == 10);
  CHECK(Uneven().StepsOf(3) == 15);
  CHECK(Uneven().StepsOf(1.5) == 7);
  CHECK(Uneven().StepsOf(1.4) == 7);  // 2.4 steps are 3
  CHECK(Uneven().StepsOf(0.01) == 1);
  CHECK(EpochCounter([](int64_t) { return 10; }).StepsOf(3.1) == 31);  // and 3.1 - 3 is a little above 0.1
}

TEST_CASE("steps are told as epochs: whole ones at their ends") {
  EpochCounter epochs = Uneven();
  CHECK(epochs.EpochsOf(0) == 0);
  CHECK(epochs.EpochsOf(1) == 0.25);
  CHECK(epochs.EpochsOf(4) == 1);
  CHECK(epochs.EpochsOf(7) == 1.5);
  CHECK(epochs.EpochsOf(10) == 2);
  CHECK(epochs.EpochsOf(4) == 1);  // asked again
  CHECK(epochs.EpochsOf(1000) == 200);
}

TEST_CASE("the last step of an epoch is known, far ahead too") {
  EpochCounter epochs = Uneven();
  CHECK(epochs.EndsEpoch(1000));
  CHECK_FALSE(epochs.EndsEpoch(999));
  CHECK(epochs.EndsEpoch(4));
  CHECK_FALSE(epochs.EndsEpoch(6));
  CHECK(epochs.EndsEpoch(10));
}

TEST_CASE("a run over packed data ends with its last epoch, however many packs each shuffle makes") {
  Random random(11);
  std::vector<TokenSample> samples;
  for (int i = 0; i < 60; ++i) {
    const size_t length = 3 + random.Below(10);
    samples.push_back({std::vector<int32_t>(length, 1), std::vector<uint8_t>(length, 1)});
  }
  auto batches = TokenBatches::Create(MakeTokenDataset(std::move(samples)), 0, 1, {.packing = true, .max_length = 16});
  REQUIRE(batches.ok());
  constexpr int64_t kEpochs = 4;
  int64_t steps = 0;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) steps += batches->StepsInEpoch(epoch).value();
  REQUIRE(steps != kEpochs * batches->StepsInEpoch(0).value());  // or this test tests nothing

  RunContext run(World{}, CreateAloneCommunicator(), torch::kCPU);
  auto module = std::make_shared<torch::nn::LinearImpl>(1, 1);
  auto trainer = Trainer::Create(run, module, {.num_train_epochs = kEpochs, .logging_steps = 0, .save_steps = 0});
  REQUIRE(trainer.ok());
  const auto task = MakeTask(*std::move(batches), {.forward = [&](const TokenBatch& batch) {
    const torch::Tensor ones = torch::ones({batch.num_loss_tokens(), 1});
    const torch::Tensor sum = module->forward(ones).square().sum();
    return Losses{{"loss", sum, batch.num_loss_tokens()}};
  }});
  const auto result = (*trainer)->Fit(*task);
  REQUIRE(result.ok());
  CHECK(result->steps == steps);
  CHECK(result->metrics.at("epoch") == kEpochs);
  CHECK(task->Position() == DataSharder::PositionOf(kEpochs, 0, ShardOptions().seed, 60));
}

}  // namespace distill
