#include "libdistill/nn/layer_sweep_loops.h"

namespace distill {

const LayerSweeps kLayerSweepsAvx512 = kLayerSweeps;

}  // namespace distill
