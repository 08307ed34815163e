// Which rank trains on which sample, when: a seeded shuffle of all samples each epoch, dealt to the ranks. It deals
// positions in the data set and reads no sample; Batches (batches.h) reads them and makes batches.
//
//   DISTILL_ASSIGN_OR_RETURN(auto sharder, DataSharder::Create(dataset, rank, world_size, {.rows_per_rank = 4}));
//   DISTILL_ASSIGN_OR_RETURN(const std::vector<IndexRows> micro_batches, sharder.NextStep());
//
// A global batch is rows_per_rank * accumulation_steps * world_size rows, or global_rows, taken in the epoch's global
// order; packs are formed in that order before the rows are dealt, so its content depends on that number only. Row j of
// it goes to rank j mod world_size. The last, short global batch of an epoch is kept: a rank that gets no row joins
// with an empty batch. Every rank makes the same number of steps. Deterministic in (seed, epoch).
//
// The order is an EpochOrder: that of a billion samples takes no time and no memory. Data sets that are streamed
// (Dataset::window) are shuffled in windows; group_by_length is refused for them where it sorts more than a quarter of
// a window.
//
// With packing lengths decide which samples share a row, with group_by_length and max_tokens_per_batch which share a
// batch (length_groups.h). Then, and only then, all of them are asked for, once, by the first call that needs them, and
// kept (8 bytes a sample; grouped, 8 more). A call that fails because of that can be made again.
//
// With max_tokens_per_batch a micro-batch of one rank has as many rows as its budget holds, and a step the next
// accumulation_steps * world_size such batches of the epoch's one list: number j of them goes to rank j mod world_size.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/data_position.h"
#include "libdistill/data/dataset.h"
#include "libdistill/data/epoch_order.h"
#include "libdistill/data/length_groups.h"
#include "libdistill/data/shard_options.h"

namespace distill {

// The samples of each row of a micro-batch, by their positions in the data set: one a row, or several with packing.
using IndexRows = std::vector<std::vector<int64_t>>;

class DataSharder {
 public:
  // Reads nothing of the data set but its size. InvalidArgument: an empty data set, or options out of range or that
  // exclude one another (CheckShardOptions, StepOn). Rank 0 logs where a global batch is less than global_rows.
  [[nodiscard]] static absl::StatusOr<DataSharder> Create(std::shared_ptr<const Dataset> dataset, int rank,
                                                          int world_size, const ShardOptions& options);

  // Steps of an epoch, from 0; the same on every rank. With packing each shuffle makes another number of rows, with
  // max_tokens_per_batch of batches, and they are formed to count them. The errors are those of Dataset::Length.
  [[nodiscard]] absl::StatusOr<int64_t> StepsInEpoch(int64_t epoch);
  // This rank's micro-batches of the next step: as many as StepOn says (fewer when a short global batch fills none
  // further on any rank, the same number on every rank). Continues with the next epoch by itself. After an error, which
  // is one of Dataset::Length, it stands where it was.
  [[nodiscard]] absl::StatusOr<std::vector<IndexRows>> NextStep();

  // What must be the same on every rank for them to work on one global order, by name: the options, the position, and
  // the data set's own fingerprint.
  [[nodiscard]] absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Fingerprint() const;

  const Dataset& dataset() const { return *dataset_; }
  // Of the next step, from 0.
  int64_t epoch() const { return state_.epoch; }

  // Where the next step starts, as bytes to be saved (docs/formats.md, "Data position").
  std::string Position() const { return state_.Format(); }
  // An epoch that was begun grouped for another size of the global batch ends in that order. InvalidArgument: no such
  // bytes, bytes of another version, another seed, a position beyond the epoch, or one within an epoch of a data set of
  // another size or of other batches by length; then it stands where it was. Cannot fail for a position that this
  // sharder itself has given.
  [[nodiscard]] absl::Status Restore(const std::string& position);
  // Back to the first sample of the first epoch: for another pass over held-out data.
  void Restart() { state_ = Start(); }

  // The bytes of a position that was saved as numbers; `samples` 0: the data set's size is not known.
  static std::string PositionOf(int64_t epoch, int64_t row, uint64_t seed, int64_t samples = 0);

 private:
  // An epoch's samples in global order. `begins`: where among them each row begins with packing, each micro-batch with
  // a budget of tokens; otherwise every sample is a row.
  struct Epoch {
    int64_t number = -1;
    int64_t window = 0;
    EpochOrder order;
    std::vector<int64_t> arranged;  // the samples in place of `order`, where lengths decide
    std::vector<int64_t> begins;

    int64_t Sample(int64_t place) const { return arranged.empty() ? order[place] : arranged[place]; }
    // Where number `index` of `begins` ends.
    int64_t EndOf(int64_t index) const;
  };

  DataSharder() = default;
  absl::StatusOr<Epoch> Form(int64_t number, int64_t window);
  // Without packing and budget nothing is formed to count them; else the epoch is kept for the next step where that is
  // in it.
  absl::StatusOr<int64_t> BeginsIn(int64_t number, int64_t window, bool is_next);
  absl::Status CheckWithinEpoch(const DataPosition& position);
  absl::Status ReadLengths();
  std::vector<int64_t> Row(int64_t row) const;
  std::vector<IndexRows> DealRows(int64_t begin, int64_t end) const;
  std::vector<IndexRows> DealBatches(int64_t first, int64_t end) const;
  DataPosition Start() const;
  bool has_budget() const { return options_.max_tokens_per_batch > 0; }
  int64_t batches_per_step() const { return options_.accumulation_steps * world_size_; }
  int64_t rows_per_step() const { return rank_rows_ * world_size_; }

  std::shared_ptr<const Dataset> dataset_;
  int rank_ = 0;
  int world_size_ = 1;
  ShardOptions options_;
  int64_t rank_rows_ = 0;                                // of a step
  DataPosition state_;                                   // where the next step starts
  Epoch epoch_;                                          // that of the last step, or the next one
  std::shared_ptr<const std::vector<int64_t>> lengths_;  // of all samples, once they were needed
};

}  // namespace distill
