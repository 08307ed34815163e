// What a model is worth on held-out data, alone or beside a teacher.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "examples/llm/held_out.h"
#include "libdistill/nn/decoder.h"

namespace distill {

struct Figures {
  int64_t parameters = 0;                // those that several layers share once
  std::optional<int64_t> weight_bytes;   // of the files of weights in its folder; none: it has none
  double loss = 0;                       // cross-entropy, nats per token of an answer
  std::optional<double> kl;              // KL(teacher || model) at temperature 1, nats per such token
  std::optional<double> top1_agreement;  // share of such tokens for which both hold the same one to be the likeliest
  // Expected calibration error (Guo et al. 2017, arXiv:1706.04599, equation 3), over such tokens: the mean distance
  // between how sure the model is of its likeliest token and how often that is the right one, in 15 bins of equal
  // width.
  double calibration_error = 0;
  std::optional<double> exact_match;        // share of conversations whose last answer it gives word for word, greedily
  std::optional<double> tokens_per_second;  // of those answers, which are made in batches; prompts' time counts
};

// `teacher` may be null, and must else share the tokenizer. Blocks. InvalidArgument: heads that do not cover the
// vocabulary; ids that the model does not know. Without conversations there is no exact match.
[[nodiscard]] absl::StatusOr<Figures> Judge(const std::shared_ptr<Decoder>& teacher,
                                            const std::shared_ptr<Decoder>& model, const HeldOut& held_out);

}  // namespace distill
