// Every collective, type, operation, count and placement of buffers, on inputs whose results are exact: the results are
// compared with ==. Run by each rank, over any backend.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "libdistill/comm/communicator.h"

namespace distill::testing {

// Where the buffers lie: anywhere, in memory of Communicator::Allocate, in it on every rank but rank 0, or at another
// place in it on every rank.
enum class BufferKind { kPlain, kRegistered, kMixed, kShifted };

struct GridOptions {
  BufferKind buffers = BufferKind::kPlain;
  std::vector<int64_t> counts = {0, 1, 3, 1009};
  std::vector<DType> dtypes = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                               DType::kInt32,   DType::kInt64,   DType::kUInt8};
  std::vector<ReduceOp> ops = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
};

// Those beside bfloat16 and int64, with which many ranks try more counts.
inline const std::vector<DType> kOtherTypes = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kInt32,
                                               DType::kUInt8};

// Internal with the first case that went wrong, or the communicator's error.
absl::Status CheckCollectives(Communicator& comm, const GridOptions& options);

// All-reduce, reduce-scatter and all-gather alone: what has several algorithms, or is written.
absl::Status CheckAllReduces(Communicator& comm, const GridOptions& options);

// Broadcast and reduce alone, for every root.
absl::Status CheckRooted(Communicator& comm, const GridOptions& options);

// Every collective over a few sizes that take many chunks.
absl::Status CheckLargeCollectives(Communicator& comm, int64_t bytes, BufferKind buffers = BufferKind::kPlain);

// Sums that are not exact: all ranks end with the same bits, and the same call gives the same bits again.
absl::Status CheckSameBits(Communicator& comm);

}  // namespace distill::testing
