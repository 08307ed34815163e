// A head over a table of words, and its loss: small enough that every gradient can be looked at.
#pragma once

#include <cstdint>
#include <functional>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "libdistill/loss/distillation_loss.h"

namespace distill::testing {

// States out of a table of words, which is the head as well if it is tied.
struct TinyHeadModel : torch::nn::Module {
  static constexpr int64_t kTokens = 6, kVocabulary = 40, kHidden = 8;

  explicit TinyHeadModel(bool is_tied, torch::Dtype dtype = torch::kFloat32) : is_tied(is_tied) {
    torch::manual_seed(3);
    words = register_parameter("words", torch::randn({kVocabulary, kHidden}).to(dtype));
    if (!is_tied) head = register_parameter("head", torch::randn({kVocabulary, kHidden}).to(dtype));
  }
  const torch::Tensor& head_weight() const { return is_tied ? words : head; }
  torch::Tensor Loss(int64_t step, const torch::Tensor& memory,
                     const std::function<void(const torch::Tensor&)>& take = nullptr, bool adds = false) const {
    const torch::Tensor ids = (torch::arange(kTokens) * 3 + step).remainder(kVocabulary);
    return DistillationLoss({.student_hidden = at::embedding(words, ids),
                             .student_weight = head_weight(),
                             .student_bias = {},
                             .teacher_hidden = {},
                             .teacher_weight = {},
                             .teacher_bias = {},
                             .labels = (ids + 1).remainder(kVocabulary),
                             .student_weight_gradient = memory,
                             .adds_student_weight_gradient = adds,
                             .take_student_weight_gradient = take},
                            {.alpha = 0, .chunk_tokens = 4})
        .loss;
  }

  const bool is_tied;
  torch::Tensor words, head;
};

}  // namespace distill::testing
