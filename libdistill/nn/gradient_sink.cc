#include "libdistill/nn/gradient_sink.h"

#include <ATen/ops/embedding.h>

namespace distill {

torch::Tensor LookUp(const torch::Tensor& table, const torch::Tensor& ids, int64_t padding,
                     const std::shared_ptr<GradientSink>& sink) {
  const bool learns = torch::GradMode::is_enabled() && table.requires_grad();
  if (!learns || sink == nullptr || !sink->TakesRows(table)) return at::embedding(table, ids, padding);
  torch::Tensor rows = at::embedding(table.detach(), ids).requires_grad_();
  rows.register_hook([sink, table, ids, padding](const torch::Tensor& gradients) {
    if (padding < 0) return sink->AddRows(table, ids, gradients);
    const torch::Tensor others = ids.ne(padding).nonzero().squeeze(1);
    sink->AddRows(table, ids.index_select(0, others), gradients.index_select(0, others));
  });
  return rows;
}

}  // namespace distill
