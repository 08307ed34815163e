// Saving what the ranks hold shares of, with the memory of one piece: rank 0 writes files and asks the others for what
// comes next in them, a tensor of the state or a block of the model; they bring their parts until it is done.
//
//   return OrderedSave(comm, tensors, blocks).Run([&](OrderedSave& save) { ...; save.Pass(name, sink); ... });
//
// Each request is a broadcast of rank 0's, so the order is the files' own, and whatever rank 0 fails at (a full disk)
// ends with a last request: nobody waits for what does not come.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/functional/function_ref.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/gradients/spread_tensor.h"
#include "libdistill/shard/sharded_blocks.h"

namespace distill {

// Everything that a resumed run needs, by name: the optimizer's tensors and the module's buffers.
using TensorState = std::map<std::string, SpreadTensor>;

class OrderedSave {
 public:
  // The same on every rank. `blocks`: of the model that is saved, whose weights rank 0 then reads by WeightsInOrder;
  // null where they are all there. Both must outlive it.
  OrderedSave(Communicator& comm, const TensorState& tensors, ShardedBlocks* blocks)
      : comm_(comm), tensors_(tensors), blocks_(blocks) {}

  // Every rank must call it; blocks. `write` is called on rank 0. All return the error of any of them.
  [[nodiscard]] absl::Status Run(absl::FunctionRef<absl::Status(OrderedSave&)> write);

  // In `write`: hands a tensor's bytes to the sink, whose error it returns. The communicator's errors too.
  [[nodiscard]] absl::Status Pass(const std::string& name, ByteSink sink);
  const TensorState& tensors() const { return tensors_; }

 private:
  enum class What : int64_t { kNothingMore, kTensor, kBlock };

  absl::Status Ask(What what, int64_t index);
  absl::Status Follow();
  absl::Status Bring(What what, int64_t index);

  Communicator& comm_;
  const TensorState& tensors_;
  ShardedBlocks* const blocks_;
};

}  // namespace distill
