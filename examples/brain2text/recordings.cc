#include "examples/brain2text/recordings.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/store/in_parallel.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

constexpr char kFeatures[] = "input_features", kTargets[] = "seq_class_ids", kBins[] = "n_time_steps",
               kCount[] = "seq_len";
constexpr size_t kRequests = 16;  // of a store, at a time

// The value of an attribute that a trial may lack.
std::optional<int64_t> AttributeOf(const Sample& trial, const char* name) {
  const auto found = trial.tensors.find(name);
  if (found == trial.tensors.end() || found->second.dtype() != DType::kInt64 || found->second.size() != 1) return {};
  return found->second.values<int64_t>()[0];
}

}  // namespace

int64_t FramesToSpell(absl::Span<const int64_t> targets) {
  int64_t frames = static_cast<int64_t>(targets.size());
  for (size_t i = 1; i < targets.size(); ++i) frames += targets[i] == targets[i - 1];
  return frames;
}

absl::StatusOr<std::shared_ptr<BrainRecordings>> BrainRecordings::Open(const Brain2TextOptions& options,
                                                                       const std::string& split,
                                                                       const std::vector<bool>& wanted, Labels labels) {
  std::shared_ptr<BrainRecordings> recordings(new BrainRecordings());
  recordings->model_ = options.model;
  recordings->max_seq_elements_ = options.max_seq_elements;
  recordings->split_ = split;
  DISTILL_ASSIGN_OR_RETURN(recordings->subset_, FeatureSubset(options));
  DISTILL_ASSIGN_OR_RETURN(recordings->sessions_, SessionsOf(options.model));
  DISTILL_RETURN_IF_ERROR(recordings->OpenFiles(options.dataset_dir, wanted));
  DISTILL_RETURN_IF_ERROR(recordings->OpenTrials(/*with_labels=*/true));
  if (labels == Labels::kWhereTheyAre && absl::IsNotFound(recordings->trials_->Read(0).status())) {
    DISTILL_RETURN_IF_ERROR(recordings->OpenTrials(/*with_labels=*/false));
  }
  DISTILL_RETURN_IF_ERROR(recordings->CheckFirstTrials());
  return recordings;
}

absl::Status BrainRecordings::OpenFiles(const std::string& dataset_dir, const std::vector<bool>& wanted) {
  for (size_t day = 0; day < sessions_.size(); ++day) {
    if (!wanted.empty() && !wanted[day]) continue;
    files_.push_back(JoinPath(JoinPath(dataset_dir, sessions_[day]), absl::StrCat("data_", split_, ".hdf5")));
    days_.push_back(static_cast<int64_t>(day));
  }
  if (files_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset_probability_val: no session has data of the split '", split_, "'"));
  }
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(dataset_dir));
  return InParallel(files_.size(), kRequests, [&](size_t i) -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(const PathKind kind, store->KindOf(files_[i]));
    if (kind == PathKind::kFile) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(files_[i], ": there is no such file: each of `sessions` needs one in ",
                                            "dataset_dir, but held-out data only those that dataset_probability_val ",
                                            "has 1 for"));
  });
}

absl::Status BrainRecordings::OpenTrials(bool with_labels) {
  has_labels_ = with_labels;
  Hdf5TrialsOptions options = {.datasets = {kFeatures}, .attributes = {kBins, kCount}};
  if (with_labels) options.datasets.push_back(kTargets);
  DISTILL_ASSIGN_OR_RETURN(trials_, Hdf5Trials::Open(files_, options));
  return absl::OkStatus();
}

absl::Status BrainRecordings::CheckFirstTrials() const {
  std::vector<int64_t> firsts;
  for (int64_t i = 0; i < size(); ++i) {
    if (i == 0 || trials_->file_of(i) != trials_->file_of(i - 1)) firsts.push_back(i);
  }
  return InParallel(firsts.size(), kRequests, [&](size_t i) { return Read(firsts[i]).status(); });
}

absl::StatusOr<HostTensor> BrainRecordings::FeaturesOf(const Sample& trial) const {
  DISTILL_ASSIGN_OR_RETURN(const HostTensor whole, trial.Find(kFeatures, DType::kFloat32));
  const auto& shape = whole.shape();
  const int64_t wanted = model_.n_input_features;
  const bool has_subset = !subset_.empty();
  if (shape.size() != 2 || (!has_subset && shape[1] != wanted)) {
    return absl::InvalidArgumentError(absl::StrCat(kFeatures, " is ", whole.Describe(), ", and n_input_features is ",
                                                   wanted, ": give the number that the recordings have"));
  }
  const int64_t bins = AttributeOf(trial, kBins).value_or(shape[0]);
  if (bins < 1 || bins > shape[0]) {
    return absl::InvalidArgumentError(
        absl::StrCat(kBins, " is ", bins, ", and ", kFeatures, " has ", shape[0], " bins"));
  }
  if (has_subset && *std::max_element(subset_.begin(), subset_.end()) >= shape[1]) {
    return absl::InvalidArgumentError(absl::StrCat("feature_subset: there are ", shape[1], " features"));
  }
  const auto values = whole.values<float>();
  std::vector<float> kept;
  kept.reserve(static_cast<size_t>(bins * wanted));
  for (int64_t bin = 0; bin < bins; ++bin) {
    const float* row = values.data() + bin * shape[1];
    if (!has_subset) kept.insert(kept.end(), row, row + wanted);
    for (const int64_t feature : subset_) kept.push_back(row[feature]);
  }
  return HostTensor(std::move(kept), {bins, wanted});
}

absl::StatusOr<HostTensor> BrainRecordings::TargetsOf(const Sample& trial, int64_t bins) const {
  DISTILL_ASSIGN_OR_RETURN(const HostTensor padded, trial.Find(kTargets));
  std::vector<int64_t> targets;
  if (padded.dtype() == DType::kInt32) {
    targets.assign(padded.values<int32_t>().begin(), padded.values<int32_t>().end());
  } else if (padded.dtype() == DType::kInt64) {
    targets.assign(padded.values<int64_t>().begin(), padded.values<int64_t>().end());
  } else {
    return absl::InvalidArgumentError(absl::StrCat(kTargets, " is ", padded.Describe(), ", and must be whole numbers"));
  }
  const int64_t until_zero = std::find(targets.begin(), targets.end(), 0) - targets.begin();
  const int64_t count = AttributeOf(trial, kCount).value_or(until_zero);
  if (count < 0 || count > static_cast<int64_t>(targets.size()) || count > max_seq_elements_) {
    return absl::InvalidArgumentError(absl::StrCat(kCount, " is ", count, ", and ", kTargets, " has ", targets.size(),
                                                   " numbers, max_seq_elements is ", max_seq_elements_));
  }
  targets.resize(static_cast<size_t>(count));
  for (const int64_t target : targets) {
    if (target >= 1 && target < model_.n_classes) continue;
    return absl::InvalidArgumentError(absl::StrCat(kTargets, " has class ", target, ": with n_classes ",
                                                   model_.n_classes, " they are 1 to ", model_.n_classes - 1,
                                                   ", and 0 is the blank"));
  }
  const int64_t frames = FramesOf(model_, bins), needed = FramesToSpell(targets);
  if (frames >= std::max<int64_t>(1, needed)) return HostTensor(std::move(targets));
  return absl::InvalidArgumentError(absl::StrCat(
      bins, " bins give ", frames, " frames (patch_size ", model_.patch_size, ", patch_stride ", model_.patch_stride,
      "), and its ", count, " targets need ", needed, ": leave the trial out, or take smaller patches"));
}

absl::StatusOr<Sample> BrainRecordings::Read(int64_t index) const {
  DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
  const std::string place = absl::StrCat(files_[static_cast<size_t>(trials_->file_of(index))], ", ", name_of(index));
  const absl::StatusOr<Sample> trial = trials_->Read(index);
  if (absl::IsNotFound(trial.status())) {
    return Annotate(trial.status(), absl::StrCat(place, ": the split '", split_, "' needs ", kFeatures,
                                                 has_labels_ ? " and the labels " : "", has_labels_ ? kTargets : ""));
  }
  DISTILL_RETURN_IF_ERROR(trial.status());
  const absl::StatusOr<HostTensor> features = FeaturesOf(*trial);
  if (!features.ok()) return Annotate(features.status(), place);
  const int64_t bins = features->shape()[0];
  absl::StatusOr<HostTensor> targets = HostTensor(std::vector<int64_t>());
  if (has_labels_) targets = TargetsOf(*trial, bins);
  if (!targets.ok()) return Annotate(targets.status(), place);
  if (FramesOf(model_, bins) < 1) {
    return absl::InvalidArgumentError(absl::StrCat(place, ": ", bins, " bins are fewer than patch_size"));
  }
  return Sample{.id = index,
                .tensors = {{"features", *features},
                            {"targets", *targets},
                            {"day", HostTensor(std::vector<int64_t>{day_of(index)}, {})}}};
}

}  // namespace distill
