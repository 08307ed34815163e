#include "libdistill/shard/ordered_save.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/comm/busy_phase.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {

absl::Status OrderedSave::Run(absl::FunctionRef<absl::Status(OrderedSave&)> write) {
  if (comm_.rank() != 0) return Agree(comm_, Follow());
  if (blocks_ != nullptr) {
    blocks_->Lead([this](size_t block) { return Ask(What::kBlock, static_cast<int64_t>(block)); });
  }
  const BusyPhase phase(comm_, "saving");
  absl::Status written = CatchTorch([&] { return write(*this); });
  if (blocks_ != nullptr) blocks_->Lead(nullptr);
  written.Update(Ask(What::kNothingMore, 0));
  return Agree(comm_, written);
}

absl::Status OrderedSave::Pass(const std::string& name, ByteSink sink) {
  const SpreadTensor& tensor = tensors_.at(name);
  // What rank 0 has whole takes nobody else.
  if (!tensor.parts.empty()) {
    DISTILL_RETURN_IF_ERROR(Ask(What::kTensor, std::distance(tensors_.begin(), tensors_.find(name))));
  }
  return PassToRank0(comm_, tensor, sink);
}

absl::Status OrderedSave::Ask(What what, int64_t index) {
  int64_t request[] = {static_cast<int64_t>(what), index};
  return comm_.Broadcast(request, 2, DType::kInt64, /*root=*/0);
}

// A request that fails here alone waits for the last one: rank 0 would ask those that have left.
absl::Status OrderedSave::Follow() {
  absl::Status mine;
  for (;;) {
    int64_t request[2] = {};
    if (const absl::Status asked = comm_.Broadcast(request, 2, DType::kInt64, /*root=*/0); !asked.ok()) return asked;
    if (static_cast<What>(request[0]) == What::kNothingMore) return mine;
    mine.Update(OrAbort(comm_, [&] { return Bring(static_cast<What>(request[0]), request[1]); }));
  }
}

absl::Status OrderedSave::Bring(What what, int64_t index) {
  if (what == What::kBlock && blocks_ != nullptr) return blocks_->FollowFetch(static_cast<size_t>(index));
  if (what == What::kTensor && index >= 0 && index < static_cast<int64_t>(tensors_.size())) {
    const auto nobody = [](absl::string_view) { return absl::OkStatus(); };
    return PassToRank0(comm_, std::next(tensors_.begin(), index)->second, nobody);
  }
  return absl::InternalError(absl::StrCat("rank 0 asks for what this rank does not save: ", index));
}

}  // namespace distill
