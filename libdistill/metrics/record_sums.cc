#include "libdistill/metrics/record_sums.h"

namespace distill {

constexpr char kLoss[] = "loss";

void RecordSums::Add(const NamedValues& means) {
  for (const auto& [name, mean] : means) {
    Sum& sum = sums_[name];
    sum.sum += mean;
    ++sum.steps;
  }
}

NamedValues RecordSums::Take() {
  NamedValues means;
  for (const auto& [name, sum] : sums_) {
    const auto place = name == kLoss ? means.begin() : means.end();
    means.emplace(place, name, sum.sum / static_cast<double>(sum.steps));
  }
  sums_.clear();
  return means;
}

void RecordSums::SaveTo(TrainerState& state) const {
  state.record_sums.clear();
  for (const auto& [name, sum] : sums_) state.record_sums.push_back({name, sum.sum, sum.steps});
}

void RecordSums::Restore(const TrainerState& state) {
  sums_.clear();
  for (const RecordSum& sum : state.record_sums) sums_[sum.name] = {sum.sum, sum.steps};
}

}  // namespace distill
