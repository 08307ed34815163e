#include "libdistill/task/teacher.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/weight_gate.h"

namespace distill {
namespace {

class ModelTeacher : public Teacher {
 public:
  explicit ModelTeacher(std::shared_ptr<LanguageModel> model) : model_(std::move(model)) {
    model_->eval();
    for (torch::Tensor& parameter : model_->parameters()) parameter.requires_grad_(false);
  }

  absl::StatusOr<TeacherAnswer> Ask(const TokenBatch&, const TokenTensors& tensors,
                                    const TeacherRequest& request) override {
    const torch::NoGradGuard no_grad;
    TeacherAnswer answer;
    if (request.layers.empty()) {
      answer.states = model_->HiddenAt(tensors.input, tensors.positions);
    } else {
      LayerStates states = model_->StatesAt(tensors.input, tensors.positions, request.layers);
      answer.states = states.last, answer.layers = std::move(states.layers);
    }
    if (!request.words) return answer;
    answer.words = TeacherHead{.input = model_->HeadInput(answer.states),
                               .weight = model_->head_weight(),
                               .bias = model_->head_bias(),
                               .scaling = {.scale = model_->logit_scale(), .softcap = model_->logit_softcap()}};
    return answer;
  }
  int64_t vocabulary() const override { return model_->head_weight().size(0); }
  int64_t hidden_size() const override { return model_->head_weight().size(1); }
  int64_t num_layers() const override { return model_->num_layers(); }
  std::string source_folder() const override { return model_->source_folder(); }
  absl::StatusOr<Fields> Fingerprint() const override { return ContentOf(*model_); }
  bool must_be_asked() const override { return model_->weight_gate() != nullptr; }
  int64_t WeightBytes(c10::DeviceType type) const override { return distill::WeightBytes(*model_, type); }

 private:
  const std::shared_ptr<LanguageModel> model_;
};

}  // namespace

absl::StatusOr<Fields> FingerprintOf(const Teacher* teacher) {
  Fields fields = {{"has a teacher", absl::StrCat(teacher != nullptr)}};
  if (teacher == nullptr) return fields;
  DISTILL_ASSIGN_OR_RETURN(const Fields of_teacher, teacher->Fingerprint());
  for (const auto& [name, value] : of_teacher) fields.emplace_back(absl::StrCat(name, " of the teacher"), value);
  return fields;
}

std::shared_ptr<Teacher> LiveTeacher(std::shared_ptr<LanguageModel> model) {
  return model == nullptr ? nullptr : std::make_shared<ModelTeacher>(std::move(model));
}

}  // namespace distill
