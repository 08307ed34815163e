#include "libdistill/data/mixture.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/content_hash.h"

namespace distill {
namespace {

// A fingerprint of parts that have one each.
std::string Combined(const std::vector<std::string>& parts) {
  if (parts.size() == 1) return parts[0];
  ContentHash hash;
  for (const std::string& part : parts) hash.Add(part);
  return absl::StrCat(parts.size(), " sources with XXH3 ", hash.Hex());
}

class MixedSources : public Dataset {
 public:
  MixedSources(std::vector<std::shared_ptr<const Dataset>> sources, Mixture mixture, bool has_weights)
      : sources_(std::move(sources)),
        mixture_(std::move(mixture)),
        has_mixture_(has_weights || !mixture_.windows.empty()) {
    for (const int64_t size : mixture_.sizes) ends_.push_back(size + (ends_.empty() ? 0 : ends_.back()));
  }

  int64_t size() const override { return ends_.back(); }
  absl::StatusOr<int64_t> Length(int64_t index) const override {
    DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
    const auto [source, own] = PlaceOf(index);
    return sources_[source]->Length(own);
  }
  absl::StatusOr<Sample> Read(int64_t index) const override {
    DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
    const auto [source, own] = PlaceOf(index);
    DISTILL_ASSIGN_OR_RETURN(Sample sample, sources_[source]->Read(own));
    sample.id = index;
    return sample;
  }
  absl::StatusOr<std::string> Fingerprint() const override {
    std::vector<std::string> parts;
    for (const auto& source : sources_) {
      DISTILL_ASSIGN_OR_RETURN(std::string part, source->Fingerprint());
      parts.push_back(std::move(part));
    }
    return absl::StrCat(Combined(parts), has_mixture_ ? absl::StrCat("; an epoch takes ", mixture_.Describe()) : "");
  }
  const Mixture* mixture() const override { return has_mixture_ ? &mixture_ : nullptr; }
  int64_t window() const override {
    int64_t least = 0;
    for (const int64_t window : mixture_.windows) {
      if (window > 0) least = least == 0 ? window : std::min(least, window);
    }
    return least;
  }
  int64_t MemoryBytes() const override {
    int64_t bytes = 0;
    for (const auto& source : sources_) bytes += source->MemoryBytes();
    return bytes;
  }

 private:
  std::pair<size_t, int64_t> PlaceOf(int64_t index) const {
    const auto source = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    return {source, index - (source == 0 ? 0 : ends_[source - 1])};
  }

  const std::vector<std::shared_ptr<const Dataset>> sources_;
  const Mixture mixture_;
  const bool has_mixture_;
  std::vector<int64_t> ends_;
};

// How many of the ids, which are sorted, lie in any `window` numbers that end at one of them: at least so many.
int64_t LeastWithin(const std::vector<int64_t>& ids, int64_t window) {
  auto least = static_cast<int64_t>(ids.size());
  size_t first = 0;
  for (size_t last = 0; last < ids.size(); ++last) {
    while (ids[last] - ids[first] >= window) ++first;
    if (first > 0) least = std::min(least, static_cast<int64_t>(last - first + 1));
  }
  return std::max<int64_t>(1, least);
}

// Some samples of another data set, by their ids, which are sorted.
class PartOfDataset : public Dataset {
 public:
  PartOfDataset(std::shared_ptr<const Dataset> whole, std::vector<int64_t> ids)
      : whole_(std::move(whole)),
        ids_(std::move(ids)),
        window_(whole_->window() == 0 ? 0 : LeastWithin(ids_, whole_->window())) {}

  int64_t size() const override { return static_cast<int64_t>(ids_.size()); }
  absl::StatusOr<int64_t> Length(int64_t index) const override {
    DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
    return whole_->Length(ids_[static_cast<size_t>(index)]);
  }
  absl::StatusOr<Sample> Read(int64_t index) const override {
    DISTILL_RETURN_IF_ERROR(CheckIndex(*this, index));
    DISTILL_ASSIGN_OR_RETURN(Sample sample, whole_->Read(ids_[static_cast<size_t>(index)]));
    sample.id = index;
    return sample;
  }
  absl::StatusOr<std::string> Fingerprint() const override {
    DISTILL_ASSIGN_OR_RETURN(const std::string whole, whole_->Fingerprint());
    ContentHash hash;
    hash.Add(ids_.data(), ids_.size() * sizeof(int64_t));
    return absl::StrCat(ids_.size(), " with XXH3 ", hash.Hex(), " of ", whole);
  }
  int64_t window() const override { return window_; }
  // The whole stays in memory for it.
  int64_t MemoryBytes() const override {
    return whole_->MemoryBytes() + static_cast<int64_t>(ids_.size() * sizeof(int64_t));
  }

 private:
  const std::shared_ptr<const Dataset> whole_;
  const std::vector<int64_t> ids_;
  const int64_t window_;
};

absl::Status CheckWeights(const std::vector<double>& weights, size_t sources) {
  if (weights.empty()) return absl::OkStatus();
  if (weights.size() != sources) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", weights.size(), " weights for ", sources, " sources: give one for each, or none"));
  }
  for (const double weight : weights) {
    if (weight > 0 && std::isfinite(weight)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a source has the weight ", weight, ": weights are above 0; leave out a source without one"));
  }
  return absl::OkStatus();
}

std::vector<int64_t> TakenOf(const std::vector<int64_t>& sizes, const MixOptions& options) {
  if (options.weights.empty()) return sizes;
  double scale = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const double of_source = static_cast<double>(sizes[i]) / options.weights[i];
    const bool is_first = i == 0;
    scale = options.stopping == Stopping::kAllExhausted ? std::max(scale, of_source)
            : is_first                                  ? of_source
                                                        : std::min(scale, of_source);
  }
  std::vector<int64_t> taken;
  for (const double weight : options.weights) {
    taken.push_back(std::max<int64_t>(1, std::llround(weight * scale)));
  }
  return taken;
}

}  // namespace

std::string Mixture::Describe() const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool is_streamed = !windows.empty() && windows[i] > 0;
    parts.push_back(
        absl::StrCat(taken[i], " of ", sizes[i], is_streamed ? absl::StrCat(" in windows of ", windows[i]) : ""));
  }
  return absl::StrJoin(parts, ", ");
}

absl::StatusOr<std::shared_ptr<Dataset>> MixSources(std::vector<std::shared_ptr<const Dataset>> sources,
                                                    const MixOptions& options) {
  if (sources.empty()) return absl::InvalidArgumentError("there is no source to mix");
  DISTILL_RETURN_IF_ERROR(CheckWeights(options.weights, sources.size()));
  Mixture mixture;
  for (const auto& source : sources) {
    if (source->size() == 0) return absl::InvalidArgumentError("a source has no samples: leave it out");
    mixture.sizes.push_back(source->size());
    mixture.windows.push_back(source->window());
  }
  const auto streams = [](int64_t window) { return window > 0; };
  if (std::none_of(mixture.windows.begin(), mixture.windows.end(), streams)) mixture.windows.clear();
  mixture.taken = TakenOf(mixture.sizes, options);
  return std::make_shared<MixedSources>(std::move(sources), std::move(mixture), !options.weights.empty());
}

std::shared_ptr<Dataset> SpreadSamples(std::shared_ptr<const Dataset> dataset, int64_t count) {
  const int64_t size = dataset->size(), taken = std::min(count, size);
  std::vector<int64_t> ids;
  // Not i * size / taken, whose product may be too large.
  for (int64_t i = 0; i < taken; ++i) ids.push_back(size / taken * i + size % taken * i / taken);
  return std::make_shared<PartOfDataset>(std::move(dataset), std::move(ids));
}

SplitDataset SplitByIds(std::shared_ptr<const Dataset> dataset, double share) {
  std::vector<int64_t> first, second;
  for (int64_t id = 0; id < dataset->size(); ++id) {
    const bool is_second = Random(0x5eed, static_cast<uint64_t>(id)).Uniform() < share;
    (is_second ? second : first).push_back(id);
  }
  return {std::make_shared<PartOfDataset>(dataset, std::move(first)),
          std::make_shared<PartOfDataset>(dataset, std::move(second))};
}

}  // namespace distill
