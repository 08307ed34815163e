#include "libdistill/task/teacher.h"

namespace distill {
namespace {

class ModelTeacher : public Teacher {
 public:
  explicit ModelTeacher(std::shared_ptr<LanguageModel> model) : model_(std::move(model)) {
    model_->eval();
    for (torch::Tensor& parameter : model_->parameters()) parameter.requires_grad_(false);
  }

  absl::StatusOr<TeacherAnswer> Ask(const TokenTensors& batch, bool asks_words) override {
    const torch::NoGradGuard no_grad;
    TeacherAnswer answer;
    answer.states = model_->HiddenAt(batch.input, batch.positions);
    if (!asks_words) return answer;
    answer.head_input = model_->HeadInput(answer.states);
    answer.head_weight = model_->head_weight();
    answer.head_bias = model_->head_bias();
    answer.scaling = {.scale = model_->logit_scale(), .softcap = model_->logit_softcap()};
    return answer;
  }
  int64_t vocabulary() const override { return model_->head_weight().size(0); }
  int64_t hidden_size() const override { return model_->head_weight().size(1); }
  std::string source_folder() const override { return model_->source_folder(); }
  bool must_be_asked() const override { return model_->weight_gate() != nullptr; }

 private:
  const std::shared_ptr<LanguageModel> model_;
};

}  // namespace

std::shared_ptr<Teacher> LiveTeacher(std::shared_ptr<LanguageModel> model) {
  return model == nullptr ? nullptr : std::make_shared<ModelTeacher>(std::move(model));
}

}  // namespace distill
