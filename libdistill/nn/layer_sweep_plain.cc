#include "libdistill/nn/layer_sweep_loops.h"

namespace distill {

const LayerSweeps kLayerSweepsPlain = kLayerSweeps;

}  // namespace distill
