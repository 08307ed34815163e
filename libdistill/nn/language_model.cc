#include "libdistill/nn/language_model.h"

#include "libdistill/nn/token_layout.h"

namespace distill {

void TokenInput::LayOut() { layout = LayoutOf(*this); }

std::vector<torch::Tensor> TokenInput::tensors() const {
  std::vector<torch::Tensor> all = {input_ids};
  if (token_types.defined()) all.push_back(token_types);
  if (layout == nullptr) return all;
  for (const torch::Tensor& tensor : {layout->positions, layout->source, layout->real, layout->target}) {
    if (tensor.defined()) all.push_back(tensor);
  }
  return all;
}

}  // namespace distill
