// The recipe's data: reviews as the options name them, tokenized, and dealt to the ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "examples/polarity/options.h"
#include "libdistill/data/batches.h"
#include "libdistill/task/device_batch.h"
#include "libdistill/text/tokenizer.h"
#include "libdistill/world/world.h"

namespace distill {

struct Reviews {
  LabelledTextDataset train;
  std::optional<LabelledTextDataset> held_out;
};

// In memory, on this rank's threads. `with_token_types`: the model tells the texts of a pair by them. Logs what was
// read. InvalidArgument, NotFound, DataLoss: with the option that names the data.
[[nodiscard]] absl::StatusOr<Reviews> LoadReviews(const PolarityOptions& options, const Tokenizer& tokenizer,
                                                  bool with_token_types);

// Batches of "ids" with "ids_lengths", "label" and, where the samples have them, "token_types". The last step of an
// epoch is short where the rows do not fill it: every rank makes it, some with fewer rows, or none.
[[nodiscard]] absl::StatusOr<Batches<TensorBatch>> ShardReviews(const LabelledTextDataset& reviews, const World& world,
                                                                const ShardOptions& options,
                                                                const Tokenizer& tokenizer);

}  // namespace distill
