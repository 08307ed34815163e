// A student made out of its teacher: some of the teacher's blocks, its embeddings and its head (Sanh et al. 2019,
// "DistilBERT", section 2: "we initialize the student from the teacher by taking one layer out of two").
//
//   DISTILL_ASSIGN_OR_RETURN(auto teacher, LoadEncoder("models/bert-base-uncased"));
//   DISTILL_ASSIGN_OR_RETURN(auto student, MakeStudent(*teacher, {0, 2, 4, 7, 9, 11}));
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/nn/encoder.h"

namespace distill {

// Of a BERT teacher a DistilBERT; of the other families one of the same family with fewer blocks. Block i of the
// student is block layers[i] of the teacher, from 0; empty: every other one, beginning with the first. Weights are
// copied to the CPU in float32. DistilBERT has no token types, so that type 0's row, which plain text has everywhere,
// goes into its positions: with all of its blocks it computes what the teacher does (where the teacher's layer_norm_eps
// is DistilBERT's 1e-12). Dropout is the teacher's. Blocks for nothing. InvalidArgument: a layer that the teacher does
// not have.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Encoder>> MakeStudent(const Encoder& teacher,
                                                                   const std::vector<int64_t>& layers = {});

// The config of that student, without any weights: for plans.
[[nodiscard]] absl::StatusOr<EncoderConfig> StudentConfig(const EncoderConfig& teacher,
                                                          const std::vector<int64_t>& layers = {});

}  // namespace distill
