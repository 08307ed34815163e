// What moves data without arithmetic over shared memory: see shm_communicator.cc.
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
      if (target != blocks[r]) CopyBytes(target, blocks[r], here);
    }
  };
  const auto copy_in = [&](int64_t begin, int64_t here) {
    slot_stores_.Write(here, [&](Stores stores) { CopyBytes(group_.slot(rank()), from + begin, here, stores); });
  };
  const auto take = [&](uint64_t round, int64_t begin, int64_t here) {
    copy_out(Slots(round, 0, from + begin), begin, here);
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
    if (rank() != root) return;
    slot_stores_.Write(here, [&](Stores stores) { CopyBytes(group_.slot(root), data + begin, here, stores); });
  };
  const auto take = [&](uint64_t round, int64_t begin, int64_t here) {
    if (rank() != root) CopyBytes(data + begin, group_.slot(root, round), here);
  };
  const auto in_places = [&] {
    if (rank() != root) CopyBytes(data, Places(0)[root], bytes);
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
    slot_stores_.Write((world_size() - 1) * here, [&](Stores stores) {
      for (int r = 0; r < world_size(); ++r) {
        if (r == rank()) continue;
        CopyBytes(group_.slot(rank()) + r * per_round, from + r * bytes + begin, here, stores);
      }
    });
  };
  const auto copy_out = [&](const void* const* blocks, int64_t begin, int64_t here) {
    for (int r = 0; r < world_size(); ++r) {
      CopyBytes(to + r * bytes + begin, blocks[r], here);
    }
  };
  const auto take = [&](uint64_t round, int64_t begin, int64_t here) {
    copy_out(Slots(round, rank() * per_round, from + rank() * bytes + begin), begin, here);
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
