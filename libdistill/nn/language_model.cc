#include "libdistill/nn/language_model.h"

#include <ATen/ops/embedding.h>

#include "libdistill/nn/token_layout.h"

namespace distill {

void TokenInput::LayOut() { layout = LayoutOf(*this); }

std::vector<torch::Tensor> TokenInput::tensors() const {
  std::vector<torch::Tensor> all = {input_ids};
  if (layout == nullptr) return all;
  for (const torch::Tensor& tensor : {layout->positions, layout->source, layout->real, layout->target}) {
    if (tensor.defined()) all.push_back(tensor);
  }
  return all;
}

torch::Tensor LanguageModel::LookUp(const torch::Tensor& table, const torch::Tensor& ids, int64_t padding) const {
  const bool learns = torch::GradMode::is_enabled() && table.requires_grad();
  const RowTaker take = learns && row_taker_ ? row_taker_(table) : nullptr;
  if (take == nullptr) return at::embedding(table, ids, padding);
  torch::Tensor rows = at::embedding(table.detach(), ids).requires_grad_();
  rows.register_hook([take, ids, padding](const torch::Tensor& gradients) {
    if (padding < 0) return take(ids, gradients);
    const torch::Tensor others = ids.ne(padding).nonzero().squeeze(1);
    take(ids.index_select(0, others), gradients.index_select(0, others));
  });
  return rows;
}

}  // namespace distill
