// What a GPU's threads do to rows of the layers' sweeps, one after the other on the CPU, in groups of `wide` elements,
// 1 or 4. Rows of a weight's gradient are added up in one sum, [H], aligned for that.
#pragma once

#include "libdistill/nn/layer_sweep_cuda.h"

namespace distill::testing {

struct AsThreads {
  int wide;
  int threads;  // of a row
};

void NormAsThreads(const NormRows& rows, int64_t count, const AsThreads& as);
void NormGradientAsThreads(const NormRows& rows, int64_t count, const AsThreads& as);
void GatedAsThreads(const GatedRows& rows, int64_t count, const AsThreads& as);
void GatedGradientAsThreads(const GatedRows& rows, int64_t count, const AsThreads& as);
void RotateAsThreads(const RotatedRows& rows, int64_t count, const AsThreads& as);

}  // namespace distill::testing
