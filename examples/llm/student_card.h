// The page of a student that was just trained: its recipe out of the options, its figures out of the run.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "examples/llm/llm_task.h"
#include "examples/llm/model_card.h"
#include "examples/llm/options.h"
#include "libdistill/distill.h"
#include "libdistill/metrics/observer.h"

namespace distill {

// Watches a run for the card's sake.
class LastLoss : public Observer {
 public:
  absl::Status OnStep(const StepRecord& record, TrainingControl&) override {
    if (!record.values.empty()) loss_ = record.values.front().second;
    return absl::OkStatus();
  }
  // Of the last step; none where the run had no step left.
  std::optional<double> loss() const { return loss_; }

 private:
  std::optional<double> loss_;
};

// Where the folder that the student was loaded from has a page with a license, that is this model's, too.
ModelCard CardOf(const RunContext& run, const LlmOptions& options, const TrainResult& result, const LastLoss& last,
                 const LlmModels& models);

// README.md of the folder, which may be of any store. One that a person wrote stays.
[[nodiscard]] absl::Status WriteCard(const std::string& folder, const ModelCard& card);

}  // namespace distill
