#include "libdistill/train/module_state.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/safetensors.h"
#include "libdistill/tensor/convert.h"
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

absl::Status BroadcastParameters(Communicator& comm, const torch::nn::Module& module) {
  for (const torch::Tensor& parameter : module.parameters()) {
    DISTILL_RETURN_IF_ERROR(BroadcastFromRank0(comm, parameter.detach()));
  }
  return absl::OkStatus();
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
  std::vector<torch::Tensor> on_host;
  std::map<std::string, TensorView> views;
  for (const auto& items : {module.named_parameters(), module.named_buffers()}) {
    for (const auto& item : items) {
      on_host.push_back(ToSaved(item.value()));
      views[item.key()] = ViewOf(on_host.back());
    }
  }
  return WriteSafetensors(absl::StrCat(folder, "/model.safetensors"), views, {{"format", "pt"}});
}

torch::Tensor ToSaved(const torch::Tensor& tensor) { return ToHost(tensor, SavedType(tensor.scalar_type())); }

}  // namespace distill
