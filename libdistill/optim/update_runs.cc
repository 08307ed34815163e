#include "libdistill/optim/update_runs.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "libdistill/optim/adamw_cuda.h"
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

}  // namespace

void UpdateRuns(const std::vector<AdamWRun>& runs, const AdamWFactors& factors, c10::Device device) {
  if (!device.is_cpu()) {
    TORCH_CHECK(device.is_cuda() && HasCudaAdamW(), "this build has no optimizer for ", device);
    return AdamWOnGpu(runs.data(), static_cast<int64_t>(runs.size()), factors, device.index());
  }
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
