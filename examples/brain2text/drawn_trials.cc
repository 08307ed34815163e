#include "examples/brain2text/drawn_trials.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr int64_t kManyBatches = 1'000'000'000;  // more than any run makes

}  // namespace

absl::StatusOr<std::shared_ptr<DrawnTrials>> DrawnTrials::Create(std::shared_ptr<const Dataset> trials,
                                                                 std::vector<std::vector<int64_t>> by_day,
                                                                 const DrawOptions& options) {
  by_day.erase(std::remove_if(by_day.begin(), by_day.end(), [](const auto& day) { return day.empty(); }), by_day.end());
  if (options.days_per_batch > static_cast<int64_t>(by_day.size())) {
    return absl::InvalidArgumentError(absl::StrCat("days_per_batch is ", options.days_per_batch, ", and there are ",
                                                   by_day.size(), " sessions with training data"));
  }
  if (options.days_per_batch > options.batch_size) {
    return absl::InvalidArgumentError(absl::StrCat("days_per_batch is ", options.days_per_batch,
                                                   ", and a batch has only ", options.batch_size, " trials"));
  }
  std::shared_ptr<DrawnTrials> drawn(new DrawnTrials());
  drawn->trials_ = std::move(trials);
  drawn->by_day_ = std::move(by_day);
  drawn->options_ = options;
  return drawn;
}

absl::StatusOr<std::shared_ptr<DrawnTrials>> DrawnTrials::Create(std::shared_ptr<const BrainRecordings> recordings,
                                                                 const DrawOptions& options) {
  std::vector<std::vector<int64_t>> by_day(recordings->sessions().size());
  for (int64_t i = 0; i < recordings->size(); ++i) by_day[static_cast<size_t>(recordings->day_of(i))].push_back(i);
  return Create(std::move(recordings), std::move(by_day), options);
}

std::vector<int64_t> DrawnTrials::Batch(int64_t number) const {
  Random random(options_.seed, static_cast<uint64_t>(number));
  const auto below = [&](size_t count) { return static_cast<size_t>(random.Below(count)); };
  std::vector<size_t> days(by_day_.size());
  std::iota(days.begin(), days.end(), 0);
  const auto wanted = static_cast<size_t>(options_.days_per_batch);
  for (size_t i = 0; i < wanted; ++i) std::swap(days[i], days[i + below(days.size() - i)]);
  // As many of each day; those too many go from days at random.
  const int64_t of_each = (options_.batch_size + options_.days_per_batch - 1) / options_.days_per_batch;
  std::vector<int64_t> counts(wanted, of_each);
  for (int64_t extra = of_each * options_.days_per_batch - options_.batch_size; extra > 0;) {
    int64_t& count = counts[below(wanted)];
    if (count > 1) --count, --extra;
  }
  std::vector<int64_t> trials;
  for (size_t i = 0; i < wanted; ++i) {
    const std::vector<int64_t>& of_day = by_day_[days[i]];
    for (int64_t n = 0; n < counts[i]; ++n) trials.push_back(of_day[below(of_day.size())]);
  }
  return trials;
}

int64_t DrawnTrials::size() const { return kManyBatches * options_.batch_size; }

int64_t DrawnTrials::TrialOf(int64_t index) const {
  return Batch(index / options_.batch_size)[static_cast<size_t>(index % options_.batch_size)];
}

absl::StatusOr<Sample> DrawnTrials::Read(int64_t index) const {
  DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
  DISTILL_ASSIGN_OR_RETURN(Sample sample, trials_->Read(TrialOf(index)));
  sample.id = index;
  return sample;
}

absl::StatusOr<std::string> DrawnTrials::Fingerprint() const {
  DISTILL_ASSIGN_OR_RETURN(const std::string of_trials, trials_->Fingerprint());
  return absl::StrCat("batches of ", options_.batch_size, " trials from ", options_.days_per_batch,
                      " days, drawn with ", options_.seed, " from ", of_trials);
}

}  // namespace distill
