#include "libdistill/train/model_gradients.h"

namespace distill {

namespace {

// A module that is none, or has no such table: -1.
int64_t TableOf(const torch::nn::Module& module, const std::vector<TrainedParameter>& parameters) {
  const auto* model = dynamic_cast<const LanguageModel*>(&module);
  if (model == nullptr || !model->embedding_weight().defined()) return -1;
  if (!model->embedding_weight().is_same(model->head_weight())) return -1;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].tensor.is_same(model->head_weight())) return static_cast<int64_t>(i);
  }
  return -1;
}

}  // namespace

int64_t TiedTable(const torch::nn::Module& module, const std::vector<TrainedParameter>& parameters) {
  int64_t table = TableOf(module, parameters);
  for (const auto& part : module.modules(/*include_self=*/false)) {
    if (table < 0) table = TableOf(*part, parameters);
  }
  return table;
}

void GiveGradientsTo(const std::shared_ptr<GradientReducer>& reducer, LanguageModel& model) {
  const std::weak_ptr<GradientReducer> weak = reducer;
  model.SetGradientLender([weak](const torch::Tensor& parameter) {
    const std::shared_ptr<GradientReducer> reducer = weak.lock();
    return reducer != nullptr ? reducer->Lend(parameter) : torch::Tensor();
  });
  model.SetGradientTaker([weak](const torch::Tensor& parameter) -> LanguageModel::GradientTaker {
    const std::shared_ptr<GradientReducer> reducer = weak.lock();
    if (reducer == nullptr || !reducer->TakesWide(parameter)) return nullptr;
    return [weak, parameter](const torch::Tensor& gradient) {
      const std::shared_ptr<GradientReducer> reducer = weak.lock();
      TORCH_CHECK(reducer != nullptr, "the head's gradient came when its reducer was gone");
      reducer->AddWide(parameter, gradient);
    };
  });
  model.SetRowTaker([weak](const torch::Tensor& table) -> LanguageModel::RowTaker {
    const std::shared_ptr<GradientReducer> reducer = weak.lock();
    if (reducer == nullptr || !reducer->TakesRows(table)) return nullptr;
    return [weak](const torch::Tensor& ids, const torch::Tensor& gradients) {
      const std::shared_ptr<GradientReducer> reducer = weak.lock();
      TORCH_CHECK(reducer != nullptr, "gradients of looked-up rows came when their reducer was gone");
      reducer->AddRows(ids, gradients);
    };
  });
}

}  // namespace distill
