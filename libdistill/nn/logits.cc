#include "libdistill/nn/logits.h"

namespace distill {

torch::Tensor LogitsOfProduct(const LanguageModel& model, torch::Tensor product) {
  if (model.head_bias().defined()) product = product + model.head_bias().narrow(0, 0, product.size(1));
  product = product.to(torch::kFloat32);
  if (model.logit_scale() != 1) product = product * model.logit_scale();
  const double cap = model.logit_softcap();
  return cap > 0 ? torch::tanh(product / cap) * cap : product;
}

torch::Tensor LogitsOf(const LanguageModel& model, const torch::Tensor& input, int64_t vocabulary) {
  const torch::Tensor weight = model.head_weight();
  const int64_t rows = vocabulary > 0 ? vocabulary : weight.size(0);
  return LogitsOfProduct(model, input.matmul(weight.narrow(0, 0, rows).t()));
}

}  // namespace distill
