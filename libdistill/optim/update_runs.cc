#include "libdistill/optim/update_runs.h"

#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "libdistill/optim/adamw_cuda.h"
#include "libdistill/tensor/own_stream.h"
#include "libdistill/tensor/parallel.h"

namespace distill {
namespace {

// Large enough that handing it out costs nothing beside it, small enough that threads end together.
constexpr int64_t kPiece = 1 << 16;

AdamWRun PieceOf(const AdamWRun& run, int64_t begin, int64_t count) {
  AdamWRun piece = run;
  piece.master += begin;
  piece.exp_avg += begin;
  piece.exp_avg_sq += begin;
  piece.gradient += begin;
  if (run.working != nullptr) piece.working = static_cast<char*>(run.working) + begin * SizeOf(run.working_type);
  piece.count = count;
  return piece;
}

void UpdateOnGpu(const std::vector<AdamWRun>& runs, const AdamWFactors& factors, c10::Device device) {
  TORCH_CHECK(device.is_cuda(), "there is no optimizer for ", device);
  const c10::DeviceGuard guard(device);
  void* const stream = CurrentStream(device).native_handle();
  for (int64_t next = 0, all = static_cast<int64_t>(runs.size()); next < all;) {
    const char* const error = EnqueueAdamW(NextLaunch(runs.data(), all, next, factors), stream);
    TORCH_CHECK(error == nullptr, "the optimizer's kernel did not start on ", device, ": ", error);
  }
}

}  // namespace

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

void UpdateRuns(const std::vector<AdamWRun>& runs, const AdamWFactors& factors, c10::Device device) {
  if (!device.is_cpu()) return UpdateOnGpu(runs, factors, device);
  std::vector<AdamWRun> pieces;
  for (const AdamWRun& run : runs) {
    for (int64_t begin = 0; begin < run.count; begin += kPiece) {
      pieces.push_back(PieceOf(run, begin, std::min(kPiece, run.count - begin)));
    }
  }
  ParallelFor(static_cast<int64_t>(pieces.size()), /*grain=*/1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) SweepAdamW(pieces[static_cast<size_t>(i)], factors);
  });
}

}  // namespace distill
