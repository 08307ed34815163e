// How the values of parameters come into the shares of ShardedBlocks, out of memory or from where they wait.
#include <malloc.h>

#include "libdistill/core/status_macros.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/shard/sharded_blocks.h"
#include "libdistill/tensor/unbacked.h"

namespace distill {
namespace {

constexpr char kSharded[] =
    "the weights of blocks are sharded over the ranks, and here only while their block runs. Read a student's in "
    "Task::SaveModel, or after a Fit with whole_after_fit; a teacher's before ShardFrozen";

}  // namespace

// Block by block, so that no more than one is there twice.
absl::Status ShardedBlocks::TakeValues(const std::vector<TrainedParameter>& parameters,
                                       const std::vector<int64_t>& block_of) {
  const torch::NoGradGuard no_grad;
  shares_.resize(plan_.plan().buckets.size());
  parts_.resize(block_of.size());
  torch::Tensor left = torch::zeros({SizesOf(plan_, block_of).shares},
                                    torch::TensorOptions().dtype(options_.dtype).device(options_.device));
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
void ShardedBlocks::MakeRoom(const std::vector<TrainedParameter>& parameters) {
  for (const TrainedParameter& parameter : parameters) {
    const torch::Tensor& tensor = parameter.tensor;
    if (HasMemory(tensor) || (room_.defined() && room_.numel() >= tensor.numel())) continue;
    room_ = torch::empty({tensor.numel()}, torch::TensorOptions(tensor.scalar_type()));
  }
}

absl::Status ShardedBlocks::TakeBlock(size_t index, const std::vector<TrainedParameter>& parameters) {
  Block& block = blocks_[index];
  const auto bytes = static_cast<size_t>(block.elements) * torch::elementSize(options_.dtype);
  block.storage = StorageWithoutMemory(bytes, options_.device);
  for (size_t k = 0; k < block.buckets.size(); ++k) {
    for (const size_t i : plan_.plan().buckets[block.buckets[k]]) {
      DISTILL_ASSIGN_OR_RETURN(const torch::Tensor values, ValuesOf(parameters[i].tensor));
      TakePart(i, values);
      MakeView(block, block.begin[k] + plan_.offset(i), parameters[i]);
    }
  }
  return absl::OkStatus();
}

void ShardedBlocks::TakePart(size_t i, const torch::Tensor& values) {
  const size_t b = plan_.bucket_of(i);
  const ShardPlan::Part part = plan_.OfParameter(i, comm_->rank());
  const int64_t begin = part.count == 0 ? 0 : plan_.offset(i) + part.begin - comm_->rank() * plan_.slice(b);
  const torch::Tensor mine = values.reshape({-1}).narrow(0, part.begin, part.count);
  parts_[i] = shares_[b].narrow(0, begin, part.count);
  parts_[i].copy_(mine);
  if (options_.also != nullptr) options_.also(i, mine);
}

void ShardedBlocks::MakeView(Block& block, int64_t begin, const TrainedParameter& parameter) {
  const auto of_type = torch::TensorOptions().dtype(options_.dtype).device(options_.device);
  torch::Tensor tensor = parameter.tensor;
  Weight weight = {.parameter = tensor,
                   .away = RefusingStorage(block.storage->nbytes(), options_.device, parameter.name, kSharded)};
  tensor.set_data(ViewInto(weight.away, begin, tensor.sizes(), of_type));
  tensor.unsafeGetTensorImpl()->set_allow_tensor_metadata_change(true);  // the storage's, by Point
  block.weights.push_back(std::move(weight));
}

absl::StatusOr<torch::Tensor> ShardedBlocks::ValuesOf(const torch::Tensor& parameter) {
  if (options_.source == nullptr || HasMemory(parameter)) return parameter.detach();
  const torch::Tensor values = room_.narrow(0, 0, parameter.numel()).view(parameter.sizes());
  DISTILL_RETURN_IF_ERROR(ReadOnRank0(*comm_, *options_.source, parameter, values));
  return values;
}

}  // namespace distill
