// What the pickles of torch.save say of tensors (torch/_utils.py, torch/serialization.py): nothing but names, types,
// shapes and where in which storage. The bytes lie elsewhere in the file (torch_file.h).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libdistill/store/pickle.h"
#include "libdistill/store/tensor_file.h"

namespace distill {

// The names that a pickle of weights may have.
absl::Span<const PickleGlobal> TorchGlobals();

// A tensor as a part of a storage, which several may share. Its texts are those of the pickle, which must outlive it.
struct PickledTensor {
  absl::string_view name;
  absl::string_view storage;                        // its key
  int64_t storage_elements = 0, storage_bytes = 0;  // at least 0
  const StoredType* type = nullptr;
  int64_t offset = 0;                   // in elements of the storage
  std::vector<int64_t> shape, strides;  // as many of the one as of the other, all at least 0
};

// Of a state_dict, which maps names to tensors. Their places are not checked against the storages. DataLoss and
// InvalidArgument: it is something else, or a type that is not supported; the tensor is named.
[[nodiscard]] absl::StatusOr<std::vector<PickledTensor>> TensorsOf(const PickleDocument& document);

}  // namespace distill
