#include "libdistill/task/token_steps.h"

#include <memory>
#include <system_error>
#include <utility>

#include "libdistill/core/check.h"
#include "libdistill/task/token_tensors.h"
#include "libdistill/tensor/own_stream.h"

namespace distill {

TokenSteps::TokenSteps(DataSharder& sharder, TokenLoss loss, c10::Device device)
    : sharder_(sharder), loss_(std::move(loss)), state_(sharder.state()) {
  if (!device.is_cpu()) copies_ = StreamOfPool(device, /*first=*/false);
}

TokenSteps::~TokenSteps() { DropAhead(); }

void TokenSteps::StartAhead() {
  const auto make = [this] {
    Ahead ahead;
    ahead.batches = sharder_.NextStep();
    for (TokenBatch& batch : ahead.batches) {
      if (copies_.has_value() && batch.num_loss_tokens() > 0) batch.sent = Send(batch, *copies_);
    }
    ahead.end = sharder_.state();
    return ahead;
  };
  // Where no thread is to be had the step is made when it is asked for.
  try {
    ahead_ = std::async(std::launch::async, make);
  } catch (const std::system_error&) {
    ahead_ = std::async(std::launch::deferred, make);
  }
}

void TokenSteps::DropAhead() const {
  if (!ahead_.valid()) return;
  ahead_.wait();
  ahead_ = {};
  const absl::Status restored = sharder_.Restore(state_);
  DISTILL_CHECK(restored.ok(), std::string(restored.message()));  // it stood there before
}

std::vector<MicroStep> TokenSteps::NextStep() {
  if (!ahead_.valid()) StartAhead();
  Ahead ahead = ahead_.get();
  state_ = ahead.end;
  StartAhead();
  std::vector<MicroStep> steps;
  for (TokenBatch& made : ahead.batches) {
    const auto batch = std::make_shared<const TokenBatch>(std::move(made));
    steps.push_back({.loss_count = batch->num_loss_tokens(),
                     .num_tokens = batch->num_tokens(),
                     .num_samples = static_cast<int64_t>(batch->sample_ids.size()),
                     .forward = [loss = loss_, batch] { return loss(*batch); }});
  }
  return steps;
}

int64_t TokenSteps::steps_per_epoch() const {
  DropAhead();
  return sharder_.steps_per_epoch();
}

int64_t TokenSteps::steps_in_epoch(int64_t epoch) const {
  if (ahead_.valid()) ahead_.wait();  // the answer is the same wherever the sharder stands
  return sharder_.steps_in_epoch(epoch);
}

std::vector<std::pair<std::string, std::string>> TokenSteps::Fingerprint() const {
  DropAhead();
  return sharder_.Fingerprint();
}

absl::Status TokenSteps::Restore(const ShardState& state) {
  DropAhead();
  const absl::Status restored = sharder_.Restore(state);
  if (restored.ok()) state_ = state;
  return restored;
}

}  // namespace distill
