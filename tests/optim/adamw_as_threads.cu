#include "tests/optim/adamw_as_threads.h"

#include "libdistill/optim/adamw_device.cuh"

namespace distill::testing {

void UpdateAsThreads(const AdamWLaunch& launch, int threads) {
  for (int64_t block = 0; block < launch.first_block[launch.num_runs]; ++block) {
    for (int thread = 0; thread < threads; ++thread) UpdateAsThread(launch, block, thread, threads);
  }
}

}  // namespace distill::testing
