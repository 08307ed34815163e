// The samples of an epoch in global order, each place by itself: a shuffle of all of them, or of those that a mixture
// of sources takes.
#pragma once

#include <cstdint>
#include <vector>

#include "libdistill/data/dataset.h"
#include "libdistill/data/sample_order.h"

namespace distill {

class EpochOrder {
 public:
  EpochOrder() = default;
  // A pure function of the data set's size and mixture, seed and epoch. Without `shuffle` samples come in the order of
  // their ids, and those that a mixture takes one source after the other.
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
  };

  SampleOrder order_;
  std::vector<Part> parts_;  // none: the samples themselves are shuffled
};

}  // namespace distill
