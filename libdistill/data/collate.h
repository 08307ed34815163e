// Samples to batches: what a Batches (batches.h) calls with the rows of one micro-batch.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libdistill/data/batches.h"
#include "libdistill/data/mlm_masking.h"
#include "libdistill/data/sample.h"
#include "libdistill/data/token_batch.h"

namespace distill {

// Rows of a language model, out of token samples (token_dataset.h): padding, packing, and the one place where labels
// are shifted. The samples of a row follow one another in it, every one cut at max_length. The batch is as long as its
// longest row, and has no columns where `rows` is empty. InvalidArgument, with the sample: no "ids" or "is_target", of
// another type or shape, without tokens, or not of one length.
[[nodiscard]] absl::StatusOr<TokenBatch> Collate(absl::Span<const SampleRow> rows, int64_t max_length, int32_t pad_id);

// Rows of a masked language model, laid out in the same way: labels[i] is the token that input_ids[i] hides, or
// kIgnoreLabel. Samples have "ids", and may have beside them "is_special" (uint8 [T], 1: never masked) and "words"
// (int32 [T], which word a token is of). InvalidArgument, with the sample: as Collate's, and as MlmMasking::Mask's.
[[nodiscard]] absl::StatusOr<TokenBatch> CollateMasked(const DealtRows& rows, const MlmMasking& masking,
                                                       int64_t max_length, int32_t pad_id);

// A tensor whose first dimension differs from sample to sample.
struct Padding {
  std::string name;
  double value = 0;
};

// Every tensor of the samples, by its name, one sample a row: [rows, shape of the sample's]. They must be of one shape,
// but for those in `padded`, which are filled up on the right to the longest of the batch; how long each was is in
// NAME_lengths (int64 [rows]), so that a batch may have several such (features and targets). InvalidArgument, with
// sample and tensor: one that is missing, or of another type or shape than the first sample's; a row of several
// samples.
[[nodiscard]] absl::StatusOr<Batch> StackRows(absl::Span<const SampleRow> rows, absl::Span<const Padding> padded = {});

}  // namespace distill
