#include "libdistill/tensor/exact_float32.h"

#include <ATen/Context.h>

namespace distill {

void MultiplyFloat32Exactly() { at::globalContext().setAllowTF32CuDNN(false); }

}  // namespace distill
