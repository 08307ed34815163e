#include "libdistill/core/check.h"
#include "libdistill/optim/adamw_cuda.h"

namespace distill {

bool HasCudaAdamW() { return false; }

void AdamWOnGpu(const AdamWRun*, int64_t, const AdamWFactors&, int) {
  DISTILL_CHECK(false, "this build has no CUDA; ask HasCudaAdamW first");
}

}  // namespace distill
