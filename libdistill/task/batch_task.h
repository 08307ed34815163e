// A task out of batches and an objective. Threads make each step's batches while the steps before are computed, and on
// a GPU send them there too.
//
//   BatchTask<TokenBatch> task(std::move(batches), objective);
//   task.SetHeldOut(std::move(held_out));
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/batches.h"
#include "libdistill/data/loader.h"
#include "libdistill/task/objective.h"
#include "libdistill/task/task.h"
#include "libdistill/tensor/own_stream.h"

namespace distill {

// Batches that are made ahead of their use, and sent ahead to a GPU; `steps` of them, where no more are needed.
template <typename B>
std::unique_ptr<Loader<B>> MakeLoader(Batches<B>& batches, const LoaderOptions& options,
                                      std::shared_ptr<const Objective<B>> objective, c10::Device device,
                                      int64_t steps = std::numeric_limits<int64_t>::max()) {
  std::optional<c10::Stream> copies;
  if (!device.is_cpu()) copies = StreamOfPool(device);
  const auto prepare = [objective = std::move(objective), copies](B& batch) {
    objective->Prepare(batch, copies.has_value() ? &*copies : nullptr);
  };
  return std::make_unique<Loader<B>>(batches, options, prepare, steps);
}

// A pass over held-out batches with an objective.
template <typename B>
class BatchEvaluator : public Evaluator {
 public:
  BatchEvaluator(Batches<B> batches, std::shared_ptr<const Objective<B>> objective)
      : batches_(std::move(batches)), objective_(std::move(objective)) {}
  BatchEvaluator(const BatchEvaluator&) = delete;  // threads may read its batches
  BatchEvaluator& operator=(const BatchEvaluator&) = delete;

  void SetLoader(const LoaderOptions& options) { loader_options_ = options; }
  absl::Status Start(c10::Device device) override {
    loader_.reset();
    batches_.Restart();
    DISTILL_ASSIGN_OR_RETURN(steps_, batches_.StepsInEpoch(0));
    loader_ = MakeLoader(batches_, loader_options_, objective_, device, steps_);
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> Steps() override { return steps_; }
  absl::StatusOr<std::vector<Pass>> NextStep() override {
    DISTILL_ASSIGN_OR_RETURN(std::vector<B> batches, loader_->NextStep());
    std::vector<Pass> passes;
    for (B& made : batches) {
      if (!objective_->Evaluates(made)) {
        passes.push_back(nullptr);
        continue;
      }
      const auto batch = std::make_shared<const B>(std::move(made));
      passes.push_back(
          [objective = objective_, batch](Metrics& metrics) { return objective->Evaluate(*batch, metrics); });
    }
    return passes;
  }
  void Stop() override { loader_.reset(); }
  absl::StatusOr<MetricValues> Summarize(const MetricValues& means, const Predictions& predictions) override {
    return objective_->Summarize(means, predictions);
  }
  absl::StatusOr<Fields> Fingerprint() override { return batches_.Fingerprint(); }

 private:
  Batches<B> batches_;
  const std::shared_ptr<const Objective<B>> objective_;
  int64_t steps_ = 0;
  LoaderOptions loader_options_;
  std::unique_ptr<Loader<B>> loader_;  // last: its threads use what is above
};

template <typename B>
class BatchTask : public Task {
 public:
  BatchTask(Batches<B> batches, std::shared_ptr<const Objective<B>> objective)
      : batches_(std::move(batches)), objective_(std::move(objective)) {}
  BatchTask(const BatchTask&) = delete;  // threads may read its batches
  BatchTask& operator=(const BatchTask&) = delete;

  // How batches are made ahead, held-out ones too: before a Fit.
  void SetLoader(const LoaderOptions& options) {
    loader_options_ = options;
    if (evaluator_ != nullptr) evaluator_->SetLoader(options);
  }
  // Held-out batches: evaluated with the same objective, or with another one.
  void SetHeldOut(Batches<B> held_out) { SetHeldOut(std::move(held_out), objective_); }
  void SetHeldOut(Batches<B> held_out, std::shared_ptr<const Objective<B>> objective) {
    evaluator_ = std::make_unique<BatchEvaluator<B>>(std::move(held_out), std::move(objective));
    evaluator_->SetLoader(loader_options_);
  }
  const Objective<B>& objective() const { return *objective_; }

  std::vector<TermWeight> LossTerms() const override { return objective_->LossTerms(); }
  std::vector<std::string> Reported() const override { return objective_->Reported(); }
  void Start(c10::Device device) override {
    Stop();
    loader_ = MakeLoader(batches_, loader_options_, objective_, device);
  }
  void Stop() override { loader_.reset(); }
  // The answer is the same wherever the batches stand.
  absl::StatusOr<int64_t> StepsInEpoch(int64_t epoch) override {
    return loader_ != nullptr ? loader_->StepsInEpoch(epoch) : batches_.StepsInEpoch(epoch);
  }
  absl::StatusOr<std::vector<MicroStep>> NextStep() override {
    if (loader_ == nullptr) Start(c10::kCPU);
    DISTILL_ASSIGN_OR_RETURN(std::vector<B> batches, loader_->NextStep());
    std::vector<MicroStep> steps;
    for (B& made : batches) {
      const auto batch = std::make_shared<const B>(std::move(made));
      steps.push_back({.counts = objective_->Counts(*batch),
                       .num_tokens = objective_->Tokens(*batch),
                       .num_samples = static_cast<int64_t>(batch->sample_ids.size()),
                       .sample_ids = batch->sample_ids,
                       .forward = [objective = objective_, batch](const PassScale& scale) {
                         return objective->Forward(*batch, scale);
                       }});
    }
    return steps;
  }
  std::string Position() const override { return loader_ != nullptr ? loader_->Position() : batches_.Position(); }
  absl::Status Restore(const std::string& position) override {
    return loader_ != nullptr ? loader_->Restore(position) : batches_.Restore(position);
  }
  absl::StatusOr<Fields> Fingerprint() override {
    if (loader_ != nullptr) DISTILL_RETURN_IF_ERROR(loader_->Settle());
    DISTILL_ASSIGN_OR_RETURN(Fields fields, objective_->Fingerprint());
    DISTILL_ASSIGN_OR_RETURN(const Fields of_data, batches_.Fingerprint());
    for (const auto& [name, value] : of_data) fields.emplace_back(absl::StrCat(name, " of the training data"), value);
    return fields;
  }
  std::map<std::string, int64_t> TrainedRows(const torch::nn::Module& module) const override {
    return objective_->TrainedRows(module);
  }
  absl::Status SaveModel(const torch::nn::Module& module, const std::string& folder) const override {
    return objective_->SaveModel(module, folder);
  }
  bool saves_in_order() const override { return objective_->saves_in_order(); }
  bool losses_are_final() const override { return objective_->losses_are_final(); }
  NamedBytes HeldMemory(c10::DeviceType type) const override {
    NamedBytes held = objective_->HeldMemory(type);
    if (type == c10::DeviceType::CPU) held.emplace_back("training data", batches_.dataset().MemoryBytes());
    return held;
  }
  Evaluator* evaluator() override { return evaluator_.get(); }

 private:
  Batches<B> batches_;
  const std::shared_ptr<const Objective<B>> objective_;
  std::unique_ptr<BatchEvaluator<B>> evaluator_;
  LoaderOptions loader_options_;
  std::unique_ptr<Loader<B>> loader_;  // last: its threads use what is above
};

}  // namespace distill
