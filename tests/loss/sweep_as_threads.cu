#include "tests/loss/sweep_as_threads.h"

#include "libdistill/loss/sweep_device.cuh"

namespace distill::testing {

SweepSums SweepRowAsThreads(const GpuSweep& sweep, int64_t row, int threads) {
  DeviceNormalisers all;
  for (int thread = 0; thread < threads; ++thread) {
    const DeviceSweep part(sweep, row, thread, threads);
    all.Merge(part.Normalise(), part.rate());
  }
  double mixture = 0;
  for (int thread = 0; thread < threads; ++thread) {
    DeviceSweep part(sweep, row, thread, threads);
    part.SetNormalisers(all);
    if (part.NeedsMixture()) mixture += part.StudentToMixture();
  }
  SweepSums sums;
  double terms = 0;
  for (int thread = 0; thread < threads; ++thread) {
    DeviceSweep part(sweep, row, thread, threads);
    part.SetNormalisers(all);
    if (part.NeedsMixture()) part.SetMixture(mixture);
    if (thread == 0) sums.ce = part.CrossEntropy();
    terms += part.Finish();
    sums.divergence = part.DivergenceOf(terms);  // the last one counts
  }
  return sums;
}

}  // namespace distill::testing
