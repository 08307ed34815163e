// Values of tensors in a hash by which ranks tell whether they have the same (store/content_hash.h).
//
//   ContentHash hash;
//   for (const auto& item : model.named_parameters()) HashTensor(item.value(), hash.Add(item.key()));
#pragma once

#include <torch/types.h>

#include "libdistill/store/content_hash.h"

namespace distill {

// Adds the bytes of the tensor's values in the order of its shape, wherever they lie: neither strides nor the device
// change the hash. Blocks while a device's are copied to the host. Throws c10::Error.
void HashTensor(const torch::Tensor& tensor, ContentHash& hash);

}  // namespace distill
