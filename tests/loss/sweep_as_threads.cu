#include "tests/loss/sweep_as_threads.h"

#include <vector>

#include "libdistill/loss/sweep_device.cuh"

namespace distill::testing {

namespace {

template <bool kIsUsual>
SweepSums SweepRow(const GpuSweep& sweep, int64_t row, int threads) {
  using Sweep = DeviceSweep<kIsUsual>;
  DeviceNormalisers all;
  for (int thread = 0; thread < threads; ++thread) {
    const Sweep part(sweep, row, thread, threads);
    all.Merge(part.Normalise(), part.rate());
  }
  DeviceTopKSearch search = Sweep(sweep, row, 0, threads).TopKSearch();
  while (sweep.options.divergence == Divergence::kTopKKl && !search.is_over()) {
    double at_least = 0;
    for (int thread = 0; thread < threads; ++thread) {
      at_least += Sweep(sweep, row, thread, threads).CountAtLeast(search.tried());
    }
    search.Take(at_least);
  }
  const auto part_of = [&](int thread) {
    Sweep part(sweep, row, thread, threads);
    part.SetNormalisers(all);
    part.SetTopK(search);
    return part;
  };
  DeviceRowSums of_row;
  for (int thread = 0; thread < threads; ++thread) {
    const Sweep part = part_of(thread);
    if (!part.NeedsRow()) break;
    const DeviceRowSums mine = part.SumRow();
    of_row.first += mine.first;
    of_row.second += mine.second;
  }
  std::vector<Sweep> parts;
  for (int thread = 0; thread < threads; ++thread) {
    parts.push_back(part_of(thread));
    if (parts.back().NeedsRow()) parts.back().SetRow(of_row);
  }
  SweepSums sums;
  sums.ce = parts[0].CrossEntropy();
  struct Step {
    typename Sweep::Products products, next;
    float gradients[Sweep::kAtOnce];
  };
  std::vector<Step> steps(parts.size());
  for (size_t thread = 0; thread < parts.size(); ++thread) parts[thread].Load(0, steps[thread].products);
  double terms = 0;
  const auto differentiate = [&](int64_t step, size_t begin, size_t end) {
    if (step == parts[0].steps()) return;
    for (size_t thread = begin; thread < end; ++thread) {
      Step& mine = steps[thread];
      parts[thread].Load(step + 1, mine.next);
      parts[thread].Differentiate(step, mine.products, mine.gradients, terms);
      mine.products = mine.next;
    }
  };
  const auto put = [&](int64_t step, size_t begin, size_t end) {
    for (size_t thread = begin; thread < end; ++thread) parts[thread].Put(step, steps[thread].gradients);
  };
  // As far apart as a GPU's threads may be: one half reads of the next step before the other writes of this one.
  const size_t half = parts.size() / 2;
  differentiate(0, 0, parts.size());
  for (int64_t step = 0; step < parts[0].steps(); ++step) {
    put(step, 0, half);
    differentiate(step + 1, 0, half);
    put(step, half, parts.size());
    differentiate(step + 1, half, parts.size());
  }
  sums.divergence = parts[0].DivergenceOf(terms);
  return sums;
}

}  // namespace

SweepSums SweepRowAsThreads(const GpuSweep& sweep, int64_t row, int threads, SweepKernelKind kind) {
  const bool is_usual = kind == SweepKernelKind::kChosen && IsUsual(sweep);
  return is_usual ? SweepRow<true>(sweep, row, threads) : SweepRow<false>(sweep, row, threads);
}

bool IsUsualSweep(const GpuSweep& sweep) { return IsUsual(sweep); }

}  // namespace distill::testing
