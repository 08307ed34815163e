// Lets all ranks of a job decide together: one bad rank stops every rank with the same message. And what that is made
// of: texts and bytes, from all ranks to all or to rank 0. All of these block.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"

namespace distill {

// All ranks' `count` elements at `in`, in the order of ranks, at `out`. `count` may be 0.
using GatherElements = absl::FunctionRef<absl::Status(const void* in, void* out, int64_t count, DType dtype)>;
// Every rank must call it: the texts of all `ranks`, in their order, by two gathers.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> GatherTextsBy(int ranks, const std::string& mine,
                                                                     GatherElements gather);

// Every rank must call it: every rank's text, in the order of ranks.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> GatherTexts(Communicator& comm, const std::string& mine);

// Bytes of any length. Every rank must call it: on rank 0 the bytes of each rank, in the order of ranks; elsewhere
// nothing.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> GatherBytes(Communicator& comm, const std::string& mine);

// Every rank must call it: rank 0's bytes, on every rank; those of the others are not looked at.
[[nodiscard]] absl::StatusOr<std::string> BroadcastBytes(Communicator& comm, std::string bytes);

// Every rank must call it: the names that any rank gives, sorted.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> UnionOfNames(Communicator& comm,
                                                                    const std::vector<std::string>& mine);

// Every rank must call it. OK when every rank passes OK; otherwise the error of the lowest failing rank, on every rank,
// with "rank N on HOST: " before it where that is another rank than this one.
[[nodiscard]] absl::Status Agree(Communicator& comm, const absl::Status& mine);

// Every rank must call it, with the same keys in the same order for equal builds. FailedPrecondition on every rank when
// two ranks differ: names the first field that differs, both ranks (with hosts) and both values.
[[nodiscard]] absl::Status RequireSameOnAllRanks(Communicator& comm,
                                                 const std::vector<std::pair<std::string, std::string>>& fields);

}  // namespace distill
