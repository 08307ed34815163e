// Batches of recordings for the model: augmented in training, padded with zeros. Sees no torch.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "examples/brain2text/augmentation.h"
#include "examples/brain2text/model_options.h"
#include "libdistill/data/batches.h"
#include "libdistill/data/sample.h"

namespace distill {

struct BrainCollation {
  BrainModelOptions model;
  std::optional<AugmentationOptions> augmentation = {};  // none: recordings as they are
  uint64_t seed = 0;                                     // of the augmentation
};

// Of BrainRecordings' samples: "features" float32 [B, T, F] with "features_lengths" int64 [B], "targets" int64 [B, S]
// with "targets_lengths", "day" int64 [B]; counts["kl"] is the frames of all rows. Cutting leaves each recording as
// many bins as its targets need.
[[nodiscard]] absl::StatusOr<Batch> CollateRecordings(const DealtRows& rows, const BrainCollation& how);

}  // namespace distill
