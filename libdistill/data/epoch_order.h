// The samples of an epoch in global order, each place by itself: a shuffle of all of them, or of those that a mixture
// of sources takes.
//
// Data sets that are streamed (Dataset::window) are shuffled in windows (SampleOrder::ShuffledInWindows). A mixture
// with such a source is dealt in blocks: a block has of each source what comes next in the source's own order, in the
// shares of the whole epoch, and shuffles it. Of a streamed source it has at most a quarter of a window, so that what
// any part of the epoch needs of the source lies within two windows of it.
#pragma once

#include <cstdint>
#include <vector>

#include "libdistill/data/dataset.h"
#include "libdistill/data/sample_order.h"

namespace distill {

class EpochOrder {
 public:
  EpochOrder() = default;
  // A pure function of the data set's size, window and mixture, seed and epoch. Without `shuffle` samples come in the
  // order of their ids, and those that a mixture takes one source after the other.
  EpochOrder(const Dataset& dataset, bool shuffle, uint64_t seed, int64_t epoch);

  int64_t size() const { return order_.size(); }
  // The id of the sample at `place`, from 0 to size() - 1.
  int64_t operator[](int64_t place) const;

  // How many places there are, without making the order.
  static int64_t SizeOf(const Dataset& dataset);

 private:
  // What the epoch takes of one source.
  struct Part {
    int64_t end = 0;                       // of its places, before they are shuffled with those of others
    int64_t first_id = 0;                  // of the source
    std::vector<SampleOrder> passes = {};  // through the source; the last one may end early
    int64_t taken = 0;

    int64_t Id(int64_t own) const;  // of the place in its passes
  };
  int64_t InBlock(int64_t place) const;
  int64_t BlockBegin(int64_t block) const;
  int64_t ShareBegin(const Part& part, int64_t block) const;

  SampleOrder order_;
  std::vector<Part> parts_;  // none: the samples themselves are shuffled
  int64_t blocks_ = 0;       // 0: the places of all parts are shuffled at once
  uint64_t seed_ = 0;        // of the blocks
  int64_t epoch_ = 0;
};

}  // namespace distill
