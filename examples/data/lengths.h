// How long the samples of a data set are, in numbers and as pictures.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/dataset.h"

namespace distill {

// In ascending order.
using Lengths = std::vector<int64_t>;

[[nodiscard]] absl::StatusOr<Lengths> LengthsOf(const Dataset& dataset);

// A table of ranges of lengths, with bars; the mean, the median, the 95th percentile and the longest.
std::string DescribeLengths(const Lengths& lengths, int64_t max_length);

// The same as an SVG file.
[[nodiscard]] absl::Status DrawLengths(const Lengths& lengths, const std::string& title, const std::string& file);

// What share of the tokens of an epoch's batches is padding.
[[nodiscard]] absl::StatusOr<double> PaddingOf(std::shared_ptr<const Dataset> dataset, int64_t rows, int64_t max_length,
                                               bool packing);

}  // namespace distill
