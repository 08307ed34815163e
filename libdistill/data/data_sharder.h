// Which rank trains on which sample, when: a seeded shuffle of all samples each epoch, dealt to the ranks.
//
//   DISTILL_ASSIGN_OR_RETURN(auto sharder, DataSharder::Create(dataset, rank, world_size, {.rows_per_rank = 4}));
//   while (...) { std::vector<TokenBatch> micro_batches = sharder.NextStep(); ... }
//
// A global batch is rows_per_rank * accumulation_steps * world_size rows, taken in the epoch's global order; packs are
// formed in that order before the rows are dealt, so its content depends on that product only. Row j of it goes to rank
// j mod world_size. The last, short global batch of an epoch is kept: a rank that gets no row joins with an empty
// batch. Every rank makes the same number of steps. Deterministic in (seed, epoch).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/batch.h"
#include "libdistill/data/dataset.h"

namespace distill {

struct ShardOptions {
  uint64_t seed = 42;
  int64_t rows_per_rank = 1;       // of one micro-batch
  int64_t accumulation_steps = 1;  // micro-batches of one step
  bool shuffle = true;
  bool packing = false;  // several documents in a row, up to max_length, none cut
  int64_t max_length = 4096;
  int32_t pad_id = 0;
};

// Where the next step starts. `row` counts rows (packs) of this epoch's global order, so that a job of another size
// can go on from it.
struct ShardState {
  int64_t epoch = 0;
  int64_t row = 0;
  uint64_t seed = 0;
};

class DataSharder {
 public:
  // InvalidArgument: an empty data set or sample, or options out of range. Samples longer than max_length are cut.
  [[nodiscard]] static absl::StatusOr<DataSharder> Create(std::shared_ptr<const TokenDataset> dataset, int rank,
                                                          int world_size, const ShardOptions& options);

  // Steps of the epoch that NextStep is in; the same on every rank.
  int64_t steps_per_epoch() const;
  // Steps of any epoch: with packing each shuffle makes another number of rows. Forms that epoch's rows to count them.
  int64_t steps_in_epoch(int64_t epoch) const;
  // The micro-batches of this rank for the next step: accumulation_steps of them (fewer when a short global batch fills
  // none further on any rank, the same number on every rank); goes on to the next epoch by itself.
  std::vector<TokenBatch> NextStep();

  // What must be the same on every rank for them to work on one global order, by name: the options, the position, and
  // XXH3 over all ids and targets of the data set (reads it through).
  std::vector<std::pair<std::string, std::string>> Fingerprint() const;

  const ShardState& state() const { return state_; }
  // InvalidArgument: another seed, or a position beyond the epoch.
  [[nodiscard]] absl::Status Restore(const ShardState& state);

 private:
  DataSharder() = default;
  void StartEpoch();
  int64_t rows_per_step() const;  // of all ranks

  std::shared_ptr<const TokenDataset> dataset_;
  int rank_ = 0;
  int world_size_ = 1;
  ShardOptions options_;
  ShardState state_;
  std::vector<std::vector<int64_t>> rows_;  // of this epoch: the samples of each row, in global order
};

}  // namespace distill
