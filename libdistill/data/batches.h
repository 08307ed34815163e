// Where a task's batches come from: samples that a DataSharder deals, read from its data set, made into batches by the
// task's collator. B is any type of batch.
//
//   DISTILL_ASSIGN_OR_RETURN(auto sharder, DataSharder::Create(dataset, rank, world_size, {.rows_per_rank = 8}));
//   Batches<Batch> batches(std::move(sharder), [](auto rows) { return StackRows(rows, {{"features"}}); });
//   DISTILL_ASSIGN_OR_RETURN(const std::vector<Batch> micro_batches, batches.NextStep());
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libdistill/core/check.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/data_sharder.h"
#include "libdistill/data/sample.h"

namespace distill {

// The samples of each row of a micro-batch, and the pass over the data that they are read in. What a collator draws at
// random is to be a function of the epoch, the samples' ids and a seed of its own: then batches are the same after a
// resume, on any number of ranks and made by any thread.
struct DealtRows : absl::Span<const SampleRow> {
  DealtRows(absl::Span<const SampleRow> rows, int64_t of_epoch) : absl::Span<const SampleRow>(rows), epoch(of_epoch) {}
  int64_t epoch;  // from 0
};

// A step before its samples are read.
struct DealtStep {
  std::vector<IndexRows> micro_batches;
  int64_t epoch = 0;
  std::string end;  // the position after it
};

// The samples of a micro-batch, row by row; the first error of Dataset::Read.
[[nodiscard]] inline absl::StatusOr<std::vector<SampleRow>> ReadRows(const Dataset& dataset, const IndexRows& rows) {
  std::vector<SampleRow> all(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    for (const int64_t index : rows[r]) {
      DISTILL_ASSIGN_OR_RETURN(Sample sample, dataset.Read(index));
      all[r].push_back(std::move(sample));
    }
  }
  return all;
}

template <typename B>
class Batches {
 public:
  // Makes a batch of the samples of each row; without rows, the batch of a rank that has none in a short step. It may
  // take `absl::Span<const SampleRow> rows` where the epoch does not matter. A Loader calls it from several threads at
  // once.
  using Collator = std::function<absl::StatusOr<B>(const DealtRows& rows)>;
  using Fields = std::vector<std::pair<std::string, std::string>>;

  // `collator_fields`: what the collator was told, by name: the same on every rank.
  Batches(DataSharder sharder, Collator collate, Fields collator_fields = {})
      : sharder_(std::move(sharder)), collate_(std::move(collate)), collator_fields_(std::move(collator_fields)) {}

  // As those of DataSharder.
  [[nodiscard]] absl::StatusOr<int64_t> StepsInEpoch(int64_t epoch) { return sharder_.StepsInEpoch(epoch); }
  std::string Position() const { return sharder_.Position(); }
  [[nodiscard]] absl::Status Restore(const std::string& position) { return sharder_.Restore(position); }
  void Restart() { sharder_.Restart(); }

  // The sharder's fingerprint and the collator's fields.
  [[nodiscard]] absl::StatusOr<Fields> Fingerprint() const {
    DISTILL_ASSIGN_OR_RETURN(Fields fields, sharder_.Fingerprint());
    fields.insert(fields.end(), collator_fields_.begin(), collator_fields_.end());
    return fields;
  }

  // This rank's micro-batches of the next step, made by this thread. Blocks while samples are read. After an error (of
  // the data set or the collator) it stands where it was, and the step can be asked for again.
  [[nodiscard]] absl::StatusOr<std::vector<B>> NextStep() {
    const std::string before = sharder_.Position();
    absl::StatusOr<std::vector<B>> step = MakeStep();
    if (!step.ok()) {
      const absl::Status restored = sharder_.Restore(before);
      DISTILL_CHECK(restored.ok(), std::string(restored.message()));  // it stood there before
    }
    return step;
  }

  // The parts of NextStep, for who makes batches on several threads (data/loader.h). Deal is called by one thread at a
  // time; the others by any, also beside it.
  [[nodiscard]] absl::StatusOr<DealtStep> Deal() {
    DealtStep step;
    step.epoch = sharder_.epoch();  // no step has samples of two
    DISTILL_ASSIGN_OR_RETURN(step.micro_batches, sharder_.NextStep());
    step.end = sharder_.Position();
    return step;
  }
  const Dataset& dataset() const { return sharder_.dataset(); }
  [[nodiscard]] absl::StatusOr<B> MakeBatch(absl::Span<const SampleRow> rows, int64_t epoch) const {
    return collate_(DealtRows(rows, epoch));
  }

 private:
  absl::StatusOr<std::vector<B>> MakeStep() {
    DISTILL_ASSIGN_OR_RETURN(const DealtStep dealt, Deal());
    std::vector<B> step;
    for (const IndexRows& indices : dealt.micro_batches) {
      DISTILL_ASSIGN_OR_RETURN(const std::vector<SampleRow> rows, ReadRows(dataset(), indices));
      DISTILL_ASSIGN_OR_RETURN(B batch, MakeBatch(rows, dealt.epoch));
      step.push_back(std::move(batch));
    }
    return step;
  }

  DataSharder sharder_;
  Collator collate_;
  Fields collator_fields_;
};

}  // namespace distill
