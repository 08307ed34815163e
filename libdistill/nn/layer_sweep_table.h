// The sweeps for one kind of CPU; internal to layer_sweep*.cc. No types of other headers than layer_sweep.h's here: see
// core/vector_math.h.
#pragma once

#include <cstdint>

#include "libdistill/nn/layer_sweep.h"

namespace distill {

struct LayerSweeps {
  void (*norm)(const NormRows& rows, int64_t begin, int64_t end);
  void (*norm_gradient)(const NormRows& rows, int64_t begin, int64_t end);
  void (*gated)(const GatedElements& elements, int64_t begin, int64_t end);
  void (*gated_gradient)(const GatedElements& elements, int64_t begin, int64_t end);
  void (*turn)(const TurnedRows& rows, int64_t begin, int64_t end);
};

extern const LayerSweeps kLayerSweepsPlain;
extern const LayerSweeps kLayerSweepsAvx2;
extern const LayerSweeps kLayerSweepsAvx512;

}  // namespace distill
