// What moves data without arithmetic over shared memory: see shm_communicator.cc.
#include <cstring>

#include "libdistill/comm/shm_communicator.h"

namespace distill {
namespace {

constexpr int64_t kSlot = static_cast<int64_t>(ShmGroup::kSlotBytes);

}  // namespace

absl::Status ShmCommunicator::DoAllGather(const void* send, void* receive, int64_t count, DType dtype, Placement) {
  const int64_t bytes = count * SizeOf(dtype);
  const char* from = static_cast<const char*>(send);
  char* to = static_cast<char*>(receive);
  const auto copy_out = [&](const void* const* blocks, int64_t begin, int64_t here) {
    for (int r = 0; r < world_size(); ++r) {
      char* target = to + r * bytes + begin;
      if (target != blocks[r]) std::memcpy(target, blocks[r], static_cast<size_t>(here));
    }
  };
  const auto copy_in = [&](int64_t begin, int64_t here) {
    std::memcpy(group_.slot(rank()), from + begin, static_cast<size_t>(here));
  };
  const auto take = [&](int64_t begin, int64_t here, const Deadline&) -> absl::Status {
    copy_out(Slots(0, from + begin), begin, here);
    return absl::OkStatus();
  };
  const auto in_places = [&] { copy_out(Places(0), 0, bytes); };
  return Run(Call(ShmOperation::kAllGather, send, bytes, count, dtype), bytes, kSlot, {copy_in, take, in_places});
}

absl::Status ShmCommunicator::DoBroadcast(void* buffer, int64_t count, DType dtype, int root, Placement) {
  const int64_t bytes = count * SizeOf(dtype);
  char* data = static_cast<char*>(buffer);
  ShmCall call = Call(ShmOperation::kBroadcast, buffer, bytes, count, dtype);
  call.root = root;
  const auto copy_in = [&](int64_t begin, int64_t here) {
    if (rank() == root) std::memcpy(group_.slot(root), data + begin, static_cast<size_t>(here));
  };
  const auto take = [&](int64_t begin, int64_t here, const Deadline&) -> absl::Status {
    if (rank() != root) std::memcpy(data + begin, group_.slot(root), static_cast<size_t>(here));
    return absl::OkStatus();
  };
  const auto in_places = [&] {
    if (rank() != root) std::memcpy(data, Places(0)[root], static_cast<size_t>(bytes));
  };
  return Run(call, bytes, kSlot, {copy_in, take, in_places});
}

absl::Status ShmCommunicator::DoAllToAll(const void* send, void* receive, int64_t count, DType dtype, Placement) {
  const int64_t bytes = count * SizeOf(dtype);
  const char* from = static_cast<const char*>(send);
  char* to = static_cast<char*>(receive);
  // A slot holds a piece for every rank.
  const int64_t per_round = kSlot / world_size();
  const auto copy_in = [&](int64_t begin, int64_t here) {
    for (int r = 0; r < world_size(); ++r) {
      if (r == rank()) continue;
      std::memcpy(group_.slot(rank()) + r * per_round, from + r * bytes + begin, static_cast<size_t>(here));
    }
  };
  const auto copy_out = [&](const void* const* blocks, int64_t begin, int64_t here) {
    for (int r = 0; r < world_size(); ++r) {
      std::memcpy(to + r * bytes + begin, blocks[r], static_cast<size_t>(here));
    }
  };
  const auto take = [&](int64_t begin, int64_t here, const Deadline&) -> absl::Status {
    copy_out(Slots(rank() * per_round, from + rank() * bytes + begin), begin, here);
    return absl::OkStatus();
  };
  const auto in_places = [&] { copy_out(Places(rank() * bytes), 0, bytes); };
  return Run(Call(ShmOperation::kAllToAll, send, world_size() * bytes, count, dtype), bytes, per_round,
             {copy_in, take, in_places});
}

absl::Status ShmCommunicator::DoSend(const void* data, int64_t count, DType dtype, int peer, Placement) {
  return pairs_.Send(peer, data, count, dtype, Deadline::After(timeout_));
}

absl::Status ShmCommunicator::DoReceive(void* data, int64_t count, DType dtype, int peer, Placement) {
  return pairs_.Receive(peer, data, count, dtype, Deadline::After(timeout_));
}

}  // namespace distill
