#include "libdistill/gradients/spread_tensor.h"

#include <algorithm>

#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/tensor/convert.h"

namespace distill {
namespace {

constexpr int64_t kPieceBytes = 16 << 20;

// body(first element, elements) for one piece of `count` elements after the other, until an error.
template <typename Body>
absl::Status InPieces(int64_t count, int64_t element_bytes, Body body) {
  const int64_t most = kPieceBytes / element_bytes;
  for (int64_t begin = 0; begin < count; begin += most) {
    DISTILL_RETURN_IF_ERROR(body(begin, std::min(most, count - begin)));
  }
  return absl::OkStatus();
}

// Elements of a view, of its type.
TensorView PartOf(const TensorView& whole, int64_t begin, int64_t count) {
  const int64_t bytes = SizeOf(whole.dtype);
  return {whole.dtype, {count}, static_cast<const char*>(whole.data) + begin * bytes, count * bytes};
}

// For a piece of any rank's part.
torch::Tensor RoomForPiece(const SpreadTensor& tensor) {
  int64_t elements = 0;
  for (const ShardPlan::Part& part : tensor.parts) elements = std::max(elements, part.count);
  const int64_t most = kPieceBytes / static_cast<int64_t>(tensor.mine.element_size());
  return torch::empty({std::min(elements, most)}, torch::TensorOptions(tensor.mine.scalar_type()));
}

}  // namespace

absl::Status PassToRank0(Communicator& comm, const SpreadTensor& tensor, ByteSink take) {
  const bool is_first = comm.rank() == 0;
  if (tensor.parts.empty()) return is_first ? PassSaved(tensor.mine, take) : absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const DType dtype, FromTorch(tensor.mine.scalar_type()));
  absl::Status taken;
  DISTILL_RETURN_IF_ERROR(OrAbort(comm, [&]() -> absl::Status {
    const torch::Tensor mine = tensor.mine.cpu();
    if (!is_first) {
      return InPieces(mine.numel(), SizeOf(dtype), [&](int64_t begin, int64_t count) {
        return comm.Send(mine.narrow(0, begin, count).const_data_ptr(), count, dtype, /*peer=*/0);
      });
    }
    taken = PassSaved(mine, take);
    const torch::Tensor room = RoomForPiece(tensor);
    for (int rank = 1; rank < comm.world_size(); ++rank) {
      DISTILL_RETURN_IF_ERROR(InPieces(tensor.parts[rank].count, SizeOf(dtype), [&](int64_t, int64_t count) {
        DISTILL_RETURN_IF_ERROR(comm.Receive(room.data_ptr(), count, dtype, rank));
        const auto bytes = static_cast<size_t>(count * SizeOf(dtype));
        if (taken.ok()) taken = take({static_cast<const char*>(room.const_data_ptr()), bytes});
        return absl::OkStatus();
      }));
    }
    return absl::OkStatus();
  }));
  return taken;
}

absl::Status SpreadFromRank0(Communicator& comm, const TensorView& whole, const SpreadTensor& tensor) {
  const bool is_first = comm.rank() == 0;
  return OrAbort(comm, [&]() -> absl::Status {
    if (tensor.parts.empty()) {
      if (is_first) CopyFromView(whole, tensor.mine);
      return BroadcastFromRank0(comm, tensor.mine);
    }
    DISTILL_ASSIGN_OR_RETURN(const DType dtype, FromTorch(tensor.mine.scalar_type()));
    if (is_first) CopyFromView(PartOf(whole, tensor.parts[0].begin, tensor.parts[0].count), tensor.mine);
    const torch::Tensor room = RoomForPiece(tensor);
    for (int rank = 1; rank < comm.world_size(); ++rank) {
      const ShardPlan::Part& part = tensor.parts[rank];
      if (!is_first && comm.rank() != rank) continue;
      DISTILL_RETURN_IF_ERROR(InPieces(part.count, SizeOf(dtype), [&](int64_t begin, int64_t count) {
        const torch::Tensor piece = room.narrow(0, 0, count);
        if (!is_first) DISTILL_RETURN_IF_ERROR(comm.Receive(piece.data_ptr(), count, dtype, /*peer=*/0));
        if (!is_first) tensor.mine.narrow(0, begin, count).copy_(piece);
        if (!is_first) return absl::OkStatus();
        CopyFromView(PartOf(whole, part.begin + begin, count), piece);
        return comm.Send(piece.const_data_ptr(), count, dtype, rank);
      }));
    }
    return absl::OkStatus();
  });
}

}  // namespace distill
