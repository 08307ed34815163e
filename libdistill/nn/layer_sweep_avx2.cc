#include "libdistill/nn/layer_sweep_loops.h"

namespace distill {

const LayerSweeps kLayerSweepsAvx2 = kLayerSweeps;

}  // namespace distill
