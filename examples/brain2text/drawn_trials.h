// Batches that are drawn at random, as a data set without an end: each from a few days, and from each day trials with
// replacement, so that no day's layer sees a single trial at a time. Which they are is a function of the seed and the
// batch's number alone. Sees no torch.
//
//   DISTILL_ASSIGN_OR_RETURN(auto drawn, DrawnTrials::Create(recordings, {.batch_size = 64, .days_per_batch = 4}));
//   drawn->Batch(7);              // the 8th batch's trials, by their numbers in `recordings`
//   drawn->Read(7 * 64 + 3);      // the sample in its 4th row, whose id is that number
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/brain2text/recordings.h"

namespace distill {

struct DrawOptions {
  int64_t batch_size = 64;
  int64_t days_per_batch = 4;
  uint64_t seed = 1;
};

class DrawnTrials : public Dataset {
 public:
  // InvalidArgument: fewer days than a batch is of, or fewer trials in it than days.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<DrawnTrials>> Create(std::shared_ptr<const Dataset> trials,
                                                                           std::vector<std::vector<int64_t>> by_day,
                                                                           const DrawOptions& options);
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<DrawnTrials>> Create(
      std::shared_ptr<const BrainRecordings> recordings, const DrawOptions& options);

  std::vector<int64_t> Batch(int64_t number) const;

  int64_t size() const override;
  absl::StatusOr<int64_t> Length(int64_t index) const override { return trials_->Length(TrialOf(index)); }
  absl::StatusOr<Sample> Read(int64_t index) const override;
  absl::StatusOr<std::string> Fingerprint() const override;

 private:
  DrawnTrials() = default;
  int64_t TrialOf(int64_t index) const;

  std::shared_ptr<const Dataset> trials_;
  std::vector<std::vector<int64_t>> by_day_;  // those days that have any
  DrawOptions options_;
};

}  // namespace distill
