#include "bench/train_step/steps.h"

#include <algorithm>

#include <torch/csrc/autograd/profiler_kineto.h>

#include "libdistill/tensor/peak_memory.h"

namespace distill {

namespace {

void BeginTrace() {
  namespace profiler = torch::profiler::impl;
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO);
  const std::set<profiler::ActivityType> kinds = {profiler::ActivityType::CPU, profiler::ActivityType::CUDA};
  torch::autograd::profiler::prepareProfiler(config, kinds);
  torch::autograd::profiler::enableProfiler(config, kinds);
}

}  // namespace

void TimedSteps::EndTrace() {
  if (!trace_file_.empty()) torch::autograd::profiler::disableProfiler()->save(trace_file_);
}

absl::StatusOr<std::vector<MicroStep>> TimedSteps::NextStep() {
  if (starts_.size() + 1 == steps()) peak_gib_ = static_cast<double>(PeakMemoryBytes(device_)) / (1 << 30);
  if (starts_.size() + 1 == steps() && !trace_file_.empty()) BeginTrace();
  const size_t first = starts_.size() % steps() * accumulation_;
  starts_.push_back(std::chrono::steady_clock::now());
  std::vector<MicroStep> step;
  for (size_t i = 0; i < accumulation_; ++i) step.push_back(Micro(batches_[first + i]));
  return step;
}

MicroStep TimedSteps::Micro(const TokenBatch& batch) {
  const int64_t count = recipe_.loss_count(batch);
  return {.counts = {count},
          .num_tokens = batch.num_tokens(),
          .num_samples = batch.rows,
          .forward = [this, &batch, count](const PassScale&) {
            const torch::Tensor sum = recipe_.loss(batch);
            losses_.push_back(sum.item<double>() / static_cast<double>(count));
            return Losses{{"loss", sum, count}};
          }};
}

double TimedSteps::MedianSeconds() const {
  std::vector<double> seconds;
  for (size_t i = 2; i < starts_.size(); ++i) {
    seconds.push_back(std::chrono::duration<double>(starts_[i] - starts_[i - 1]).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace distill
