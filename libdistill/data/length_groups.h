// Which samples share a batch where lengths decide: grouped by length, within a budget of tokens, or both.
//
//   const ArrangedSamples epoch = ArrangeByLength(order, lengths, {.window = 50 * rows, .batch_rows = rows});
//
// Grouped: windows of the shuffled order are sorted by length and cut into batches, and the batches of a window are
// shuffled (transformers' LengthGroupedSampler, megabatches, but for the second shuffle). So a batch has samples of
// nearly one length, and yet another set of samples each epoch. A budget: a batch has as many of the samples that come
// next as stay within it when all are as long as the longest of them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "libdistill/data/epoch_order.h"

namespace distill {

struct LengthGrouping {
  int64_t window = 0;      // samples that are sorted together; 0: they stay in the order of the shuffle
  int64_t batch_rows = 1;  // without a budget: samples of a batch. A window is a multiple of it
  int64_t max_tokens = 0;  // of a batch, padding included, at least as many as the longest sample has; 0: no budget
  bool shuffle = true;     // the batches of a window, by `seed` and `epoch`; else the longest come first
  uint64_t seed = 0;
  int64_t epoch = 0;
};

// The samples of an epoch, batch by batch.
struct ArrangedSamples {
  std::vector<int64_t> samples;
  std::vector<int64_t> batch_begins;  // where each batch starts among them
};

// A pure function of its arguments. Without a budget the samples that fill no whole batch are the last one, whatever
// their lengths: so no sample is last more often than others. `lengths`: by the ids of samples.
ArrangedSamples ArrangeByLength(const EpochOrder& order, absl::Span<const int64_t> lengths,
                                const LengthGrouping& grouping);

}  // namespace distill
