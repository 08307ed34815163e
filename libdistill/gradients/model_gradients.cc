#include "libdistill/gradients/model_gradients.h"

#include "libdistill/nn/gradient_sink.h"

namespace distill {

namespace {

// A reducer that a model may outlive.
class ReducerSink : public GradientSink {
 public:
  explicit ReducerSink(const std::shared_ptr<GradientReducer>& reducer) : reducer_(reducer) {}

  torch::Tensor Borrow(const torch::Tensor& parameter) override {
    const std::shared_ptr<GradientReducer> reducer = reducer_.lock();
    return reducer != nullptr ? reducer->Borrow(parameter) : torch::Tensor();
  }
  torch::Tensor BorrowSum(const torch::Tensor& parameter) override {
    const std::shared_ptr<GradientReducer> reducer = reducer_.lock();
    return reducer != nullptr ? reducer->BorrowSum(parameter) : torch::Tensor();
  }
  bool TakesWide(const torch::Tensor& parameter) override {
    const std::shared_ptr<GradientReducer> reducer = reducer_.lock();
    return reducer != nullptr && reducer->TakesWide(parameter);
  }
  void AddWide(const torch::Tensor& parameter, const torch::Tensor& gradient) override {
    const std::shared_ptr<GradientReducer> reducer = reducer_.lock();
    TORCH_CHECK(reducer != nullptr, "the head's gradient came when its reducer was gone");
    reducer->AddWide(parameter, gradient);
  }
  bool TakesRows(const torch::Tensor& table) override {
    const std::shared_ptr<GradientReducer> reducer = reducer_.lock();
    return reducer != nullptr && reducer->TakesRows(table);
  }
  void AddRows(const torch::Tensor& /*table*/, const torch::Tensor& ids, const torch::Tensor& gradients) override {
    const std::shared_ptr<GradientReducer> reducer = reducer_.lock();
    TORCH_CHECK(reducer != nullptr, "gradients of looked-up rows came when their reducer was gone");
    reducer->AddRows(ids, gradients);
  }

 private:
  const std::weak_ptr<GradientReducer> reducer_;
};

// A module that is no such model, or has no such table: -1.
int64_t TableOf(const torch::nn::Module& module, const std::vector<TrainedParameter>& parameters) {
  const auto* model = dynamic_cast<const LanguageModel*>(&module);
  if (model == nullptr || !model->embedding_weight().defined()) return -1;
  if (dynamic_cast<const GradientSinkUser*>(&module) == nullptr) return -1;
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

void GiveGradientsTo(const std::shared_ptr<GradientReducer>& reducer, torch::nn::Module& module) {
  const auto sink = std::make_shared<ReducerSink>(reducer);
  if (auto* user = dynamic_cast<GradientSinkUser*>(&module)) user->SetGradientSink(sink);
  for (const auto& part : module.modules(/*include_self=*/false)) {
    if (auto* user = dynamic_cast<GradientSinkUser*>(part.get())) user->SetGradientSink(sink);
  }
}

}  // namespace distill
