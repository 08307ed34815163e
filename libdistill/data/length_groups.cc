#include "libdistill/data/length_groups.h"

#include <algorithm>
#include <utility>

#include "libdistill/core/random.h"

namespace distill {
namespace {

// Apart from the generators of the shuffles, which are numbered by epochs alone.
uint64_t SeedOfWindow(const LengthGrouping& grouping, int64_t window) {
  return grouping.seed ^ 0x9e3779b97f4a7c15u * static_cast<uint64_t>(window + 1);
}

class Arranging {
 public:
  Arranging(absl::Span<const int64_t> lengths, const LengthGrouping& grouping)
      : lengths_(lengths), grouping_(grouping) {}

  // Samples that come next, in order; they begin a batch.
  void Add(absl::Span<const int64_t> samples) { Write(samples, Cut(samples)); }

  // As Add, sorted first, and with the batches shuffled.
  void AddWindow(std::vector<int64_t> samples, int64_t number) {
    Sort(samples);
    Batches batches = Cut(samples);
    if (grouping_.shuffle) {
      Random random(SeedOfWindow(grouping_, number), static_cast<uint64_t>(grouping_.epoch));
      for (size_t i = batches.size(); i > 1; --i) std::swap(batches[i - 1], batches[random.Below(i)]);
    }
    Write(samples, batches);
  }

  // Longest first; samples of one length stay in the order of the shuffle.
  void Sort(std::vector<int64_t>& samples) const {
    std::stable_sort(samples.begin(), samples.end(),
                     [this](int64_t a, int64_t b) { return lengths_[a] > lengths_[b]; });
  }

  ArrangedSamples Take() { return std::move(arranged_); }

 private:
  using Batches = std::vector<std::pair<int64_t, int64_t>>;  // where each begins and ends

  void Write(absl::Span<const int64_t> samples, const Batches& batches) {
    for (const auto& [begin, end] : batches) {
      arranged_.batch_begins.push_back(static_cast<int64_t>(arranged_.samples.size()));
      arranged_.samples.insert(arranged_.samples.end(), samples.begin() + begin, samples.begin() + end);
    }
  }

  Batches Cut(absl::Span<const int64_t> samples) const {
    Batches batches;
    int64_t begin = 0, longest = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(samples.size()); ++i) {
      const int64_t with_this = std::max(longest, lengths_[samples[i]]), rows = i + 1 - begin;
      const bool fits =
          grouping_.max_tokens > 0 ? rows * with_this <= grouping_.max_tokens : rows <= grouping_.batch_rows;
      if (!fits && i > begin) batches.emplace_back(std::exchange(begin, i), i);
      longest = begin == i ? lengths_[samples[i]] : with_this;
    }
    if (!samples.empty()) batches.emplace_back(begin, samples.size());
    return batches;
  }

  const absl::Span<const int64_t> lengths_;
  const LengthGrouping& grouping_;
  ArrangedSamples arranged_;
};

}  // namespace

ArrangedSamples ArrangeByLength(const EpochOrder& order, absl::Span<const int64_t> lengths,
                                const LengthGrouping& grouping) {
  const int64_t size = order.size();
  const auto part = [&order](int64_t begin, int64_t end) {
    std::vector<int64_t> samples;
    for (int64_t place = begin; place < end; ++place) samples.push_back(order[place]);
    return samples;
  };
  Arranging arranging(lengths, grouping);
  if (grouping.window == 0) {
    arranging.Add(part(0, size));
    return arranging.Take();
  }
  const int64_t whole = grouping.max_tokens > 0 ? size : size / grouping.batch_rows * grouping.batch_rows;
  for (int64_t begin = 0; begin < whole; begin += grouping.window) {
    arranging.AddWindow(part(begin, std::min(begin + grouping.window, whole)), begin / grouping.window);
  }
  std::vector<int64_t> rest = part(whole, size);
  arranging.Sort(rest);
  arranging.Add(rest);
  return arranging.Take();
}

}  // namespace distill
