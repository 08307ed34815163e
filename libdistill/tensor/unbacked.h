// Tensors of a type and a shape whose values are not in memory: storages that hold none yet, or none for a while.
#pragma once

#include <string>

#include <c10/core/StorageImpl.h>
#include <torch/types.h>

namespace distill {

// A storage of so many bytes without memory, until it is given some (set_data_ptr_noswap). Reading what lies in it
// before is a read through a null pointer.
c10::intrusive_ptr<c10::StorageImpl> StorageWithoutMemory(size_t bytes, c10::Device device);

// One that never gets any: whatever reads or writes what lies in it throws "`name` is not in memory: `why`", of which
// CatchTorch makes a FailedPrecondition.
c10::intrusive_ptr<c10::StorageImpl> RefusingStorage(size_t bytes, c10::Device device, const std::string& name,
                                                     const std::string& why);

// A contiguous tensor from element `offset` of a storage on, which may hold no memory.
torch::Tensor ViewInto(const c10::intrusive_ptr<c10::StorageImpl>& storage, int64_t offset, c10::IntArrayRef shape,
                       const torch::TensorOptions& options);

// A whole one that has a refusing storage of its own.
torch::Tensor WithoutMemory(c10::IntArrayRef shape, torch::Dtype dtype, c10::Device device, const std::string& name,
                            const std::string& why);

bool HasMemory(const torch::Tensor& tensor);

}  // namespace distill
