#include "libdistill/train/module_state.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/weight_gate.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/unbacked.h"
#include "libdistill/train/tensor_collectives.h"

namespace distill {
namespace {

torch::Dtype SavedType(torch::Dtype dtype) { return dtype == torch::kBool ? torch::kUInt8 : dtype; }

}  // namespace

absl::Status CheckBuffers(const torch::nn::Module& module) {
  for (const auto& item : module.named_buffers()) {
    const absl::Status known = FromTorch(SavedType(item.value().scalar_type())).status();
    if (!known.ok()) return Annotate(known, absl::StrCat("buffer ", item.key()));
  }
  return absl::OkStatus();
}

void LoadBlocks(torch::nn::Module& module) {
  if (auto* gated = dynamic_cast<GatedModel*>(&module); gated != nullptr) gated->LoadBlocks();
  for (const auto& part : module.modules(/*include_self=*/false)) {
    if (auto* gated = dynamic_cast<GatedModel*>(part.get()); gated != nullptr) gated->LoadBlocks();
  }
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
  return WriteInTurn(module, {module.named_parameters(), module.named_buffers()},
                     absl::StrCat(folder, "/model.safetensors"), SavedType);
}

absl::StatusOr<TensorView> SavedAs(torch::Dtype dtype, c10::IntArrayRef shape) {
  DISTILL_ASSIGN_OR_RETURN(const DType saved, FromTorch(SavedType(dtype)));
  return TensorView{saved, shape.vec(), nullptr, c10::multiply_integers(shape) * static_cast<int64_t>(SizeOf(saved))};
}

absl::Status PassSaved(const torch::Tensor& tensor, ByteSink sink) {
  const torch::Tensor on_host = ToHost(tensor, SavedType(tensor.scalar_type()));
  return sink({static_cast<const char*>(on_host.const_data_ptr()), on_host.nbytes()});
}

}  // namespace distill
