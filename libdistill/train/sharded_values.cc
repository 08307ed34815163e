// How the values of parameters come into the shares of ShardedBlocks, out of memory or from where they wait.
#include <malloc.h>

#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/unbacked.h"
#include "libdistill/train/module_state.h"
#include "libdistill/train/sharded_blocks.h"

namespace distill {

// Block by block, so that no more than one is there twice.
absl::Status ShardedBlocks::TakeValues(const std::vector<torch::Tensor>& parameters,
                                       const std::vector<int64_t>& block_of) {
  const torch::NoGradGuard no_grad;
  shares_.resize(plan_.plan().buckets.size());
  parts_.resize(block_of.size());
  int64_t elements = 0;
  for (const Block& block : blocks_) {
    for (const size_t b : block.buckets) elements += plan_.slice(b);
  }
  torch::Tensor left = torch::zeros({elements}, torch::TensorOptions().dtype(options_.dtype).device(options_.device));
  for (const Block& block : blocks_) {
    for (const size_t b : block.buckets) {
      shares_[b] = left.narrow(0, 0, plan_.slice(b));
      left = left.narrow(0, plan_.slice(b), left.numel() - plan_.slice(b));
    }
  }
  MakeRoom(parameters);
  for (size_t i = 0; i < blocks_.size(); ++i) DISTILL_RETURN_IF_ERROR(TakeBlock(i, parameters));
  room_ = torch::Tensor();
  malloc_trim(0);  // what the whole parameters lay in, of which glibc keeps all that is not at the heap's end
  return absl::OkStatus();
}

// Once: blocks of memory that come and go between smaller ones leave holes in glibc's heap, all of them together as
// large as the model.
void ShardedBlocks::MakeRoom(const std::vector<torch::Tensor>& parameters) {
  for (const torch::Tensor& parameter : parameters) {
    if (HasMemory(parameter) || (room_.defined() && room_.numel() >= parameter.numel())) continue;
    room_ = torch::empty({parameter.numel()}, torch::TensorOptions(parameter.scalar_type()));
  }
}

absl::Status ShardedBlocks::TakeBlock(size_t index, const std::vector<torch::Tensor>& parameters) {
  Block& block = blocks_[index];
  const auto of_type = torch::TensorOptions().dtype(options_.dtype).device(options_.device);
  const auto bytes = static_cast<size_t>(block.elements) * torch::elementSize(options_.dtype);
  block.storage = StorageWithoutMemory(bytes, options_.device);
  for (size_t k = 0; k < block.buckets.size(); ++k) {
    const size_t b = block.buckets[k];
    for (const size_t i : plan_.plan().buckets[b]) {
      DISTILL_ASSIGN_OR_RETURN(const torch::Tensor values, ValuesOf(parameters[i]));
      const int64_t begin = block.begin[k] + plan_.offset(i);
      TakeParameter(i, parameters[i], values, ViewInto(block.storage, begin, parameters[i].sizes(), of_type));
    }
  }
  return absl::OkStatus();
}

void ShardedBlocks::TakeParameter(size_t i, torch::Tensor parameter, const torch::Tensor& values, torch::Tensor view) {
  const size_t b = plan_.bucket_of(i);
  const ShardPlan::Part part = plan_.OfParameter(i, comm_->rank());
  const int64_t begin = part.count == 0 ? 0 : plan_.offset(i) + part.begin - comm_->rank() * plan_.slice(b);
  const torch::Tensor mine = values.reshape({-1}).narrow(0, part.begin, part.count);
  parts_[i] = shares_[b].narrow(0, begin, part.count);
  parts_[i].copy_(mine);
  if (options_.also != nullptr) options_.also(i, mine);
  parameter.set_data(view);
}

absl::StatusOr<torch::Tensor> ShardedBlocks::ValuesOf(const torch::Tensor& parameter) {
  if (options_.source == nullptr || HasMemory(parameter)) return parameter.detach();
  const torch::Tensor values = room_.narrow(0, 0, parameter.numel()).view(parameter.sizes());
  DISTILL_RETURN_IF_ERROR(ReadOnRank0(*comm_, *options_.source, parameter, values));
  return values;
}

}  // namespace distill
