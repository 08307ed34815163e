// How long the samples of a data set are, in numbers and as pictures.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/dataset.h"
#include "libdistill/data/shard_options.h"

namespace distill {

using Lengths = std::vector<int64_t>;

// By the samples' ids.
[[nodiscard]] absl::StatusOr<Lengths> LengthsOf(const Dataset& dataset);
Lengths Sorted(Lengths lengths);

// A table of ranges of lengths, with bars; the mean, the median, the 95th percentile and the longest. `sorted`: in
// ascending order. `max_length` 0: none is cut. `unit`: what a length counts.
std::string DescribeLengths(const Lengths& sorted, int64_t max_length, const std::string& unit = "tokens");

// The same as an SVG file.
[[nodiscard]] absl::Status DrawLengths(const Lengths& sorted, const std::string& title, const std::string& file);

// What share of an epoch's micro-batches is padding, on one rank. `lengths`: by the samples' ids.
[[nodiscard]] absl::StatusOr<double> PaddingOf(const Lengths& lengths, const ShardOptions& options);

// Prints it for shuffled batches of `rows`, for packed ones, and for those that are grouped by length.
[[nodiscard]] absl::Status PrintPadding(const Lengths& lengths, int64_t rows, int64_t max_length, bool with_packing);

}  // namespace distill
