#include "libdistill/nn/layer_sweep_cuda.h"

namespace distill {

static const char kNoCuda[] = "this build has no CUDA";

bool HasCudaLayerSweeps() { return false; }

const char* EnqueueNorm(const NormRows&, int64_t, void*) { return kNoCuda; }

int64_t NormGradientParts(int64_t, int64_t) { return 0; }

const char* EnqueueNormGradient(const NormRows&, int64_t, void*) { return kNoCuda; }

const char* EnqueueGated(const GatedRows&, int64_t, void*) { return kNoCuda; }

const char* EnqueueGatedGradient(const GatedRows&, int64_t, void*) { return kNoCuda; }

const char* EnqueueRotate(const RotatedRows&, int64_t, void*) { return kNoCuda; }

}  // namespace distill
