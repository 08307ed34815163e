// The steps of a DataSharder and a loss on its batches, as the Trainer takes them. A thread makes each step's batches
// while the step before is computed.
#pragma once

#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "libdistill/data/data_sharder.h"
#include "libdistill/task/step_source.h"

namespace distill {

class TokenSteps : public StepSource {
 public:
  // `sharder` outlives this, and nobody else uses it meanwhile; afterwards it stands where the last step ended.
  // On a GPU, batches are sent to it from that thread too.
  TokenSteps(DataSharder& sharder, TokenLoss loss, c10::Device device = c10::kCPU);
  ~TokenSteps() override;

  int64_t steps_per_epoch() const override;
  int64_t steps_in_epoch(int64_t epoch) const override;
  std::vector<MicroStep> NextStep() override;
  std::vector<std::pair<std::string, std::string>> Fingerprint() const override;
  ShardState state() const override { return state_; }
  absl::Status Restore(const ShardState& state) override;

 private:
  struct Ahead {
    std::vector<TokenBatch> batches;
    ShardState end;  // where the sharder stood after them
  };
  void StartAhead();
  // Nothing is made ahead any more; the sharder stands where the last step ended.
  void DropAhead() const;

  DataSharder& sharder_;
  const TokenLoss loss_;
  std::optional<c10::Stream> copies_;  // of a GPU: the stream that batches are sent on
  ShardState state_;                   // after the last step
  mutable std::future<Ahead> ahead_;   // the next step's; not valid: nothing is being made
};

}  // namespace distill
