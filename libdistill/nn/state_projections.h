// What turns a student's states into numbers that are compared with its teacher's (loss/state_match.h): matrices that
// are trained with the student, and belong to it only while it is trained. They lie in checkpoints, and beside the
// saved model in a file of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "absl/status/statusor.h"

namespace distill {

class LanguageModel;

class StateProjections : public torch::nn::Module {
 public:
  // `count` matrices [teacher_size, student_size] in float32: one where the sizes are the same, else normal with
  // standard deviation 1 / sqrt(student_size), equal on every rank.
  StateProjections(size_t count, int64_t teacher_size, int64_t student_size, torch::Device device);
  const torch::Tensor& weight(size_t i) const { return weights_.at(i); }

 private:
  std::vector<torch::Tensor> weights_;
};

// Adds them to the student's modules, before a trainer is made of it. FailedPrecondition: it has some of another shape.
[[nodiscard]] absl::StatusOr<std::shared_ptr<StateProjections>> AddStateProjections(size_t count, int64_t teacher_size,
                                                                                    LanguageModel& student);

// Inside nn/ only: whether a parameter of this name is one of them. Their file is kStateProjectionsFile
// (store/weight_files.h).
bool IsOfStateProjections(const std::string& name);

}  // namespace distill
