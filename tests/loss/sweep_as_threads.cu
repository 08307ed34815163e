#include "tests/loss/sweep_as_threads.h"

#include "libdistill/loss/sweep_device.cuh"

namespace distill::testing {

SweepSums SweepRowAsThreads(const GpuSweep& sweep, int64_t row, int threads) {
  DeviceNormalisers all;
  for (int thread = 0; thread < threads; ++thread) {
    const DeviceSweep part(sweep, row, thread, threads);
    all.Merge(part.Normalise(), part.rate());
  }
  DeviceTopKSearch search = DeviceSweep(sweep, row, 0, threads).TopKSearch();
  while (sweep.options.divergence == Divergence::kTopKKl && !search.is_over()) {
    double at_least = 0;
    for (int thread = 0; thread < threads; ++thread) {
      at_least += DeviceSweep(sweep, row, thread, threads).CountAtLeast(search.tried());
    }
    search.Take(at_least);
  }
  const auto part_of = [&](int thread) {
    DeviceSweep part(sweep, row, thread, threads);
    part.SetNormalisers(all);
    part.SetTopK(search);
    return part;
  };
  DeviceRowSums of_row;
  for (int thread = 0; thread < threads; ++thread) {
    const DeviceSweep part = part_of(thread);
    if (!part.NeedsRow()) break;
    const DeviceRowSums mine = part.SumRow();
    of_row.first += mine.first;
    of_row.second += mine.second;
  }
  SweepSums sums;
  double terms = 0;
  for (int thread = 0; thread < threads; ++thread) {
    DeviceSweep part = part_of(thread);
    if (part.NeedsRow()) part.SetRow(of_row);
    if (thread == 0) sums.ce = part.CrossEntropy();
    terms += part.Finish();
    sums.divergence = part.DivergenceOf(terms);  // the last one counts
  }
  return sums;
}

}  // namespace distill::testing
