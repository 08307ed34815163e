#include "libdistill/tensor/hash_tensor.h"

namespace distill {

void HashTensor(const torch::Tensor& tensor, ContentHash& hash) {
  const torch::Tensor on_host = tensor.detach().cpu().contiguous();
  hash.Add(on_host.const_data_ptr(), on_host.nbytes());
}

}  // namespace distill
