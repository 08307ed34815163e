// Rank 0 reads a checkpoint's names and state; the files' bytes are checked by all ranks, each a part.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/comm/communicator.h"

namespace distill {

// What `open` returns on rank 0, where it is called with what ReadCheckpoint and ReadNewestCheckpoint want as `check`;
// elsewhere an empty checkpoint. Every rank must call it; blocks; an error is every rank's.
//
// A rank takes part where it sees the very files of rank 0 (on disks their numbers, sizes and times, in S3 their
// ETags), and not copies of them; elsewhere the others check its part. What a rank finds damaged, or cannot read, rank
// 0 reads again: its word counts.
[[nodiscard]] absl::StatusOr<Checkpoint> OpenTogether(
    Communicator& comm, absl::FunctionRef<absl::StatusOr<Checkpoint>(CheckParts check)> open);

}  // namespace distill
