#include "libdistill/task/tensor_batch.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/tensor/own_stream.h"

namespace distill {
namespace {

torch::Tensor ViewOfHost(const HostTensor& tensor) {
  const auto options = torch::TensorOptions(ToTorch(tensor.dtype()));
  // Nobody writes there: what passes change in place they must clone.
  return torch::from_blob(
      const_cast<void*>(tensor.data()), tensor.shape(), /*deleter=*/[tensor](void*) {}, options);
}

}  // namespace

void TensorBatch::Load(const c10::Stream* copies) {
  loaded_.clear();
  there_.reset();
  for (const auto& [name, tensor] : tensors) loaded_[name] = ViewOfHost(tensor);
  if (copies == nullptr) return;
  const c10::StreamGuard guard(*copies);
  for (auto& [name, tensor] : loaded_) tensor = tensor.pin_memory().to(copies->device(), /*non_blocking=*/true);
  there_ = std::make_shared<c10::Event>(RecordEvent(copies->device()));
}

torch::Tensor TensorBatch::operator[](const std::string& name) const {
  const auto found = loaded_.find(name);
  TORCH_CHECK_INDEX(found != loaded_.end(), "the batch has no tensor '", name, "'; it has ",
                    absl::StrJoin(loaded_, ", ", [](std::string* out, const auto& item) { out->append(item.first); }));
  const torch::Tensor& tensor = found->second;
  if (there_ == nullptr) return tensor;
  // It belongs to the stream that copied it: its memory must not go back there before this one is done with it.
  const c10::Stream here = c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device());
  there_->block(here);
  tensor.record_stream(here);
  return tensor;
}

}  // namespace distill
