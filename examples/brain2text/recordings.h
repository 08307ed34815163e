// One split of all sessions as a data set: dataset_dir/SESSION/data_SPLIT.hdf5, whose groups are trials.
//
// A sample has "features" float32 [bins, features], "targets" int64 [classes], empty where the split has no labels, and
// "day", int64 [], the session's number. Bins and classes are those that the trial's attributes n_time_steps and
// seq_len say; without seq_len targets end before the first 0.
//
// Every error names file and trial. InvalidArgument: another number of features than the model's, a class that is none,
// more targets than max_seq_elements, a recording too short to spell them. Sees no torch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "examples/brain2text/options.h"
#include "libdistill/data/hdf5_trials.h"

namespace distill {

class BrainRecordings : public Dataset {
 public:
  enum class Labels { kNeeded, kWhereTheyAre };
  // Of those sessions that `wanted` names, or all where it is empty. Reads the first trial of each file, so that what
  // is wrong with all of them is found at once. NotFound: a session's file is missing.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<BrainRecordings>> Open(const Brain2TextOptions& options,
                                                                             const std::string& split,
                                                                             const std::vector<bool>& wanted,
                                                                             Labels labels);

  int64_t size() const override { return trials_->size(); }
  absl::StatusOr<int64_t> Length(int64_t index) const override { return trials_->Length(index); }
  absl::StatusOr<Sample> Read(int64_t index) const override;
  absl::StatusOr<std::string> Fingerprint() const override { return trials_->Fingerprint(); }

  bool has_labels() const { return has_labels_; }
  const std::vector<std::string>& sessions() const { return sessions_; }
  int64_t day_of(int64_t index) const { return days_[static_cast<size_t>(trials_->file_of(index))]; }
  // As its file has it, "trial_0017".
  std::string name_of(int64_t index) const { return trials_->name_of(index).substr(1); }

 private:
  BrainRecordings() = default;
  absl::Status OpenFiles(const std::string& dataset_dir, const std::vector<bool>& wanted);
  absl::Status OpenTrials(bool with_labels);
  absl::Status CheckFirstTrials() const;
  absl::StatusOr<HostTensor> FeaturesOf(const Sample& trial) const;
  absl::StatusOr<HostTensor> TargetsOf(const Sample& trial, int64_t bins) const;

  BrainModelOptions model_;
  int64_t max_seq_elements_ = 0;
  std::vector<int64_t> subset_;
  std::string split_;
  bool has_labels_ = true;
  std::vector<std::string> sessions_, files_;
  std::vector<int64_t> days_;  // of each file
  std::shared_ptr<Hdf5Trials> trials_;
};

// Frames that CTC needs to spell targets: one each, and a blank between two that are the same.
int64_t FramesToSpell(absl::Span<const int64_t> targets);

}  // namespace distill
