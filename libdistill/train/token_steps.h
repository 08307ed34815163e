// The steps of a DataSharder and a loss on its batches, as the Trainer takes them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libdistill/data/data_sharder.h"
#include "libdistill/train/trainer.h"

namespace distill {

class TokenSteps : public StepSource {
 public:
  // `sharder` outlives this.
  TokenSteps(DataSharder& sharder, Trainer::TokenLoss loss) : sharder_(sharder), loss_(std::move(loss)) {}

  int64_t steps_per_epoch() const override { return sharder_.steps_per_epoch(); }
  int64_t steps_in_epoch(int64_t epoch) const override { return sharder_.steps_in_epoch(epoch); }
  std::vector<MicroStep> NextStep() override;
  std::vector<std::pair<std::string, std::string>> Fingerprint() const override { return sharder_.Fingerprint(); }
  ShardState state() const override { return sharder_.state(); }
  absl::Status Restore(const ShardState& state) override { return sharder_.Restore(state); }

 private:
  DataSharder& sharder_;
  Trainer::TokenLoss loss_;
};

}  // namespace distill
