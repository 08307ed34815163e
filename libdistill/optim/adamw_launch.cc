#include "libdistill/optim/adamw_cuda.h"

namespace distill {

AdamWLaunch NextLaunch(const AdamWRun* runs, int64_t num_runs, int64_t& next, const AdamWFactors& factors) {
  AdamWLaunch launch;
  launch.factors = factors;
  while (next < num_runs && launch.num_runs < kRunsOfLaunch) {
    const AdamWRun& run = runs[next++];
    const int64_t blocks = (run.count + kElementsOfBlock - 1) / kElementsOfBlock;
    if (blocks == 0) continue;
    launch.runs[launch.num_runs] = run;
    launch.first_block[launch.num_runs + 1] = launch.first_block[launch.num_runs] + blocks;
    ++launch.num_runs;
  }
  return launch;
}

}  // namespace distill
