#include "libdistill/shard/sharded_values.h"

#include <malloc.h>

#include "libdistill/core/status_macros.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/tensor/unbacked.h"

namespace distill {
namespace {

constexpr char kSharded[] =
    "the weights of blocks are sharded over the ranks, and here only while their block runs. Read a student's in "
    "Task::SaveModel, or after a Fit with whole_after_fit; a teacher's before ShardFrozen";

torch::TensorOptions TypeOf(const ShardedBlocksOptions& options) {
  return torch::TensorOptions().dtype(options.dtype).device(options.device);
}

// Zeros yet.
ShardedValues MakeShares(const ShardPlan& plan, const ShardedBlocksOptions& options, size_t parameters,
                         const std::vector<ShardedBlock>& blocks) {
  ShardedValues values;
  values.shares.resize(plan.num_buckets());
  values.parts.resize(parameters);
  int64_t elements = 0;
  for (const ShardedBlock& block : blocks) {
    for (const size_t b : block.buckets) elements += plan.slice(b);
  }
  torch::Tensor left = torch::zeros({elements}, TypeOf(options));
  for (const ShardedBlock& block : blocks) {
    for (const size_t b : block.buckets) {
      values.shares[b] = left.narrow(0, 0, plan.slice(b));
      left = left.narrow(0, plan.slice(b), left.numel() - plan.slice(b));
    }
  }
  return values;
}

// For the largest parameter that is to be read; undefined where there is none. Once: blocks of memory that come and go
// between smaller ones leave holes in glibc's heap, all of them together as large as the model.
torch::Tensor MakeRoom(const std::vector<TrainedParameter>& parameters) {
  torch::Tensor room;
  for (const TrainedParameter& parameter : parameters) {
    const torch::Tensor& tensor = parameter.tensor;
    if (HasMemory(tensor) || (room.defined() && room.numel() >= tensor.numel())) continue;
    room = torch::empty({tensor.numel()}, torch::TensorOptions(tensor.scalar_type()));
  }
  return room;
}

absl::StatusOr<torch::Tensor> ValuesOf(Communicator& comm, const ShardedBlocksOptions& options,
                                       const torch::Tensor& room, const torch::Tensor& parameter) {
  if (options.source == nullptr || HasMemory(parameter)) return parameter.detach();
  const torch::Tensor values = room.narrow(0, 0, parameter.numel()).view(parameter.sizes());
  DISTILL_RETURN_IF_ERROR(ReadOnRank0(comm, options.source, parameter, values));
  return values;
}

// Parameter `i`, whose values these are.
void TakePart(int rank, const ShardPlan& plan, const ShardedBlocksOptions& options, size_t i,
              const torch::Tensor& values, ShardedValues& taken) {
  const size_t b = plan.bucket_of(i);
  const ShardPlan::Part part = plan.OfParameter(i, rank);
  const int64_t begin = part.count == 0 ? 0 : plan.offset(i) + part.begin - rank * plan.slice(b);
  const torch::Tensor mine = values.reshape({-1}).narrow(0, part.begin, part.count);
  taken.parts[i] = taken.shares[b].narrow(0, begin, part.count);
  taken.parts[i].copy_(mine);
  if (options.also != nullptr) options.also(i, mine);
}

void MakeView(ShardedBlock& block, int64_t begin, const ShardedBlocksOptions& options,
              const TrainedParameter& parameter) {
  torch::Tensor tensor = parameter.tensor;
  ShardedBlock::Weight weight = {
      .parameter = tensor, .away = RefusingStorage(block.storage->nbytes(), options.device, parameter.name, kSharded)};
  tensor.set_data(ViewInto(weight.away, begin, tensor.sizes(), TypeOf(options)));
  tensor.unsafeGetTensorImpl()->set_allow_tensor_metadata_change(true);  // the storage's, when the block comes
  block.weights.push_back(std::move(weight));
}

}  // namespace

absl::StatusOr<ShardedValues> TakeValues(Communicator& comm, const ShardPlan& plan, const ShardedBlocksOptions& options,
                                         const std::vector<TrainedParameter>& parameters,
                                         std::vector<ShardedBlock>& blocks) {
  const torch::NoGradGuard no_grad;
  ShardedValues taken = MakeShares(plan, options, parameters.size(), blocks);
  torch::Tensor room = MakeRoom(parameters);
  for (ShardedBlock& block : blocks) {
    const auto bytes = static_cast<size_t>(block.elements) * torch::elementSize(options.dtype);
    block.storage = StorageWithoutMemory(bytes, options.device);
    for (size_t k = 0; k < block.buckets.size(); ++k) {
      for (const size_t i : plan.members()[block.buckets[k]]) {
        DISTILL_ASSIGN_OR_RETURN(const torch::Tensor values, ValuesOf(comm, options, room, parameters[i].tensor));
        TakePart(comm.rank(), plan, options, i, values, taken);
        MakeView(block, block.begin[k] + plan.offset(i), options, parameters[i]);
      }
    }
  }
  room = torch::Tensor();
  malloc_trim(0);  // what the whole parameters lay in, of which glibc keeps all that is not at the heap's end
  return taken;
}

}  // namespace distill
