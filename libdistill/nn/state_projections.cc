#include "libdistill/nn/state_projections.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/nn/language_model.h"

namespace distill {
namespace {

constexpr char kPath[] = "hidden_projections";
constexpr uint64_t kSeed = 42;

}  // namespace

StateProjections::StateProjections(size_t count, int64_t teacher_size, int64_t student_size, torch::Device device) {
  const torch::NoGradGuard no_grad;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(kSeed);
  for (size_t i = 0; i < count; ++i) {
    const torch::Tensor first = teacher_size == student_size
                                    ? torch::eye(student_size)
                                    : torch::empty({teacher_size, student_size})
                                          .normal_(0, 1 / std::sqrt(static_cast<double>(student_size)), generator);
    weights_.push_back(register_parameter(absl::StrCat("weight_", i), first.to(device)));
  }
}

absl::StatusOr<std::shared_ptr<StateProjections>> AddStateProjections(size_t count, int64_t teacher_size,
                                                                      LanguageModel& student) {
  const torch::Tensor head = student.head_weight();
  const auto made = std::make_shared<StateProjections>(count, teacher_size, head.size(1), head.device());
  const auto children = student.named_children();
  if (!children.contains(kPath)) return student.register_module(kPath, made);
  const auto known = std::dynamic_pointer_cast<StateProjections>(children[kPath]);
  const auto sizes_of = [](const torch::nn::Module& module) {
    std::vector<std::vector<int64_t>> sizes;
    for (const torch::Tensor& weight : module.parameters()) sizes.push_back(weight.sizes().vec());
    return sizes;
  };
  if (known != nullptr && sizes_of(*known) == sizes_of(*made)) return known;
  return absl::FailedPreconditionError(
      "the student has projections of its states already, for other layers or another "
      "teacher: load it anew");
}

bool IsOfStateProjections(const std::string& name) { return absl::StartsWith(name, absl::StrCat(kPath, ".")); }

}  // namespace distill
