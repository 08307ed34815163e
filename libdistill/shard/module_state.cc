#include "libdistill/shard/module_state.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/store/files.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/hash_tensor.h"
#include "libdistill/tensor/unbacked.h"

namespace distill {

std::vector<int64_t> BlocksOf(const GatedModel& model, const std::vector<TrainedParameter>& parameters) {
  std::map<const c10::TensorImpl*, int64_t> blocks;
  int64_t block = 0;
  for (const auto& weights : model.BlockWeights()) {
    for (const torch::Tensor& weight : weights) blocks[weight.unsafeGetTensorImpl()] = block;
    ++block;
  }
  std::vector<int64_t> block_of;
  for (const TrainedParameter& parameter : parameters) {
    const auto found = blocks.find(parameter.tensor.unsafeGetTensorImpl());
    block_of.push_back(found == blocks.end() ? -1 : found->second);
  }
  return block_of;
}

absl::Status RequireWhole(const torch::nn::Module& module) {
  for (const auto* gated : PartsOf<const GatedModel>(module)) {
    if (gated->weight_gate() == nullptr) continue;
    return absl::FailedPreconditionError(
        "the module's weights are sharded over the ranks, by ShardFrozen or by a Fit with zero_stage 3 that failed, or "
        "was to leave them so (whole_after_fit): take one that is whole, loaded anew");
  }
  return absl::OkStatus();
}

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
    if (comm.rank() == 0) source(weight, values);
    return BroadcastFromRank0(comm, values);
  });
}

absl::Status BroadcastBuffers(Communicator& comm, const torch::nn::Module& module) {
  for (const torch::Tensor& buffer : module.buffers()) DISTILL_RETURN_IF_ERROR(BroadcastFromRank0(comm, buffer));
  return absl::OkStatus();
}

torch::Tensor HashOfFrozen(const torch::nn::Module& module) {
  ContentHash hash;
  bool has_frozen = false;
  for (const auto& item : module.named_parameters()) {
    if (item.value().requires_grad()) continue;
    HashTensor(item.value(), hash.Add(item.key()));
    has_frozen = true;
  }
  if (!has_frozen) return {};
  const std::string text = hash.Hex();
  const torch::Tensor tensor = torch::empty({static_cast<int64_t>(text.size())}, torch::kUInt8);
  std::copy(text.begin(), text.end(), tensor.mutable_data_ptr<uint8_t>());
  return tensor;
}

absl::Status WriteWeights(const torch::nn::Module& module, const std::string& folder) {
  return WriteInOrder(module, {module.named_parameters(), module.named_buffers()},
                      JoinPath(folder, "model.safetensors"), SavedType);
}

}  // namespace distill
