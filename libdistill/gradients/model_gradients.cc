#include "libdistill/gradients/model_gradients.h"

#include "libdistill/nn/gradient_sink.h"

namespace distill {

namespace {

// A reducer that a model may outlive.
class ReducerSink : public GradientSink {
 public:
  explicit ReducerSink(const std::shared_ptr<GradientReducer>& reducer) : reducer_(reducer) {}

  torch::Tensor Borrow(const torch::Tensor& parameter) override { return Ask(&GradientReducer::Borrow, parameter); }
  torch::Tensor BorrowSum(const torch::Tensor& parameter) override {
    return Ask(&GradientReducer::BorrowSum, parameter);
  }
  bool TakesWide(const torch::Tensor& parameter) override { return Ask(&GradientReducer::TakesWide, parameter); }
  void AddWide(const torch::Tensor& parameter, const torch::Tensor& gradient) override {
    const std::shared_ptr<GradientReducer> reducer = reducer_.lock();
    TORCH_CHECK(reducer != nullptr, "the head's gradient came when its reducer was gone");
    reducer->AddWide(parameter, gradient);
  }
  bool TakesRows(const torch::Tensor& table) override { return Ask(&GradientReducer::TakesRows, table); }
  void AddRows(const torch::Tensor& /*table*/, const torch::Tensor& ids, const torch::Tensor& gradients) override {
    const std::shared_ptr<GradientReducer> reducer = reducer_.lock();
    TORCH_CHECK(reducer != nullptr, "gradients of looked-up rows came when their reducer was gone");
    reducer->AddRows(ids, gradients);
  }

 private:
  // Nothing, and false, once the reducer is gone.
  template <typename Answer>
  Answer Ask(Answer (GradientReducer::*question)(const torch::Tensor&), const torch::Tensor& parameter) const {
    const std::shared_ptr<GradientReducer> reducer = reducer_.lock();
    return reducer != nullptr ? (*reducer.*question)(parameter) : Answer();
  }

  const std::weak_ptr<GradientReducer> reducer_;
};

}  // namespace

int64_t TiedTable(const torch::nn::Module& module, const std::vector<TrainedParameter>& parameters) {
  for (const auto* model : PartsOf<const LanguageModel>(module)) {
    if (dynamic_cast<const GradientSinkUser*>(model) == nullptr || !model->embedding_weight().defined()) continue;
    if (!model->embedding_weight().is_same(model->head_weight())) continue;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].tensor.is_same(model->head_weight())) return static_cast<int64_t>(i);
    }
  }
  return -1;
}

void GiveGradientsTo(const std::shared_ptr<GradientReducer>& reducer, torch::nn::Module& module) {
  const auto sink = std::make_shared<ReducerSink>(reducer);
  for (GradientSinkUser* user : PartsOf<GradientSinkUser>(module)) user->SetGradientSink(sink);
}

}  // namespace distill
