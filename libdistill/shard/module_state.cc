#include "libdistill/shard/module_state.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/nn/weight_gate.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/saved_tensor.h"
#include "libdistill/tensor/unbacked.h"

namespace distill {
absl::Status CheckBuffers(const torch::nn::Module& module) {
  for (const auto& item : module.named_buffers()) {
    const absl::Status known = SavedAs(item.value().scalar_type(), {}).status();
    if (!known.ok()) return Annotate(known, absl::StrCat("buffer ", item.key()));
  }
  return absl::OkStatus();
}

absl::Status BroadcastParameters(Communicator& comm, const torch::nn::Module& module) {
  for (const torch::Tensor& parameter : module.parameters()) {
    if (HasMemory(parameter)) DISTILL_RETURN_IF_ERROR(BroadcastFromRank0(comm, parameter.detach()));
  }
  return absl::OkStatus();
}

absl::Status ReadOnRank0(Communicator& comm, const BlockSource& source, const torch::Tensor& weight,
                         const torch::Tensor& values) {
  return OrAbort(comm, [&] {
    if (comm.rank() == 0) source.Read(weight, values);
    return BroadcastFromRank0(comm, values);
  });
}

absl::Status BroadcastBuffers(Communicator& comm, const torch::nn::Module& module) {
  for (const torch::Tensor& buffer : module.buffers()) DISTILL_RETURN_IF_ERROR(BroadcastFromRank0(comm, buffer));
  return absl::OkStatus();
}

std::map<std::string, torch::Tensor> BufferState(const torch::nn::Module& module) {
  std::map<std::string, torch::Tensor> state;
  for (const auto& item : module.named_buffers()) state["buffer." + item.key()] = item.value();
  return state;
}

absl::Status WriteWeights(const torch::nn::Module& module, const std::string& folder) {
  return WriteInOrder(module, {module.named_parameters(), module.named_buffers()},
                      absl::StrCat(folder, "/model.safetensors"), SavedType);
}

}  // namespace distill
