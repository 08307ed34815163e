#include "libdistill/comm/rank0_bytes.h"

#include "libdistill/core/status_macros.h"

namespace distill {

absl::StatusOr<std::vector<std::string>> GatherBytes(Communicator& comm, const std::string& mine) {
  const int64_t size = static_cast<int64_t>(mine.size());
  std::vector<int64_t> sizes(static_cast<size_t>(comm.world_size()));
  DISTILL_RETURN_IF_ERROR(comm.AllGather(&size, sizes.data(), 1, DType::kInt64));
  std::vector<std::string> all;
  if (comm.rank() != 0) {
    if (size > 0) DISTILL_RETURN_IF_ERROR(comm.Send(mine.data(), size, DType::kUInt8, /*peer=*/0));
    return all;
  }
  all.push_back(mine);
  for (int rank = 1; rank < comm.world_size(); ++rank) {
    all.emplace_back(static_cast<size_t>(sizes[static_cast<size_t>(rank)]), '\0');
    if (all.back().empty()) continue;
    DISTILL_RETURN_IF_ERROR(
        comm.Receive(all.back().data(), static_cast<int64_t>(all.back().size()), DType::kUInt8, rank));
  }
  return all;
}

absl::StatusOr<std::string> BroadcastBytes(Communicator& comm, std::string bytes) {
  int64_t size = static_cast<int64_t>(bytes.size());
  DISTILL_RETURN_IF_ERROR(comm.Broadcast(&size, 1, DType::kInt64, 0));
  bytes.resize(static_cast<size_t>(size));
  DISTILL_RETURN_IF_ERROR(comm.Broadcast(bytes.data(), size, DType::kUInt8, 0));
  return bytes;
}

}  // namespace distill
