// What a student learns from: given a batch, states with a head. It may be a model beside the student (LiveTeacher), or
// whatever else can answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <torch/types.h>

#include "absl/status/statusor.h"
#include "libdistill/loss/distillation_loss.h"
#include "libdistill/nn/language_model.h"
#include "libdistill/task/token_tensors.h"

namespace distill {

// N positions of a batch, H hidden, V vocabulary.
struct TeacherAnswer {
  torch::Tensor states;  // [N, H]: what the last block gives, for losses on states
  // What becomes of them before the head's product, [N, H], and the head. Undefined where no words were asked for.
  torch::Tensor head_input;
  torch::Tensor head_weight;  // [V, H]
  torch::Tensor head_bias;    // [V], or undefined
  LogitScaling scaling = {};
};

class Teacher {
 public:
  virtual ~Teacher() = default;

  // Of the positions of a batch, without gradients. `asks_words`: also what logits are made of. May throw.
  [[nodiscard]] virtual absl::StatusOr<TeacherAnswer> Ask(const TokenTensors& batch, bool asks_words) = 0;
  virtual int64_t vocabulary() const = 0;   // V
  virtual int64_t hidden_size() const = 0;  // H
  // The folder with its tokenizer; empty where there is none.
  virtual std::string source_folder() const { return ""; }
  // Whether every rank must ask for each micro-batch, also where nothing needs the answer: a sharded model's weights
  // are gathered by all ranks together.
  virtual bool must_be_asked() const { return false; }
};

// A model beside the student, in the same process: frozen, and in evaluation mode. Null for a null model.
std::shared_ptr<Teacher> LiveTeacher(std::shared_ptr<LanguageModel> model);

}  // namespace distill
