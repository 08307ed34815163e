// Where a DataSharder stands, as bytes that are saved with checkpoints (docs/formats.md, "Data position").
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace distill {

struct DataPosition {
  int64_t epoch = 0;
  int64_t row = 0;  // rows of the epoch's global order that are done
  uint64_t seed = 0;
  int64_t samples = 0;          // of the data set; 0: not known
  std::string mixture = "";     // a hash of it; empty: there is none
  int64_t window = 0;           // samples that are sorted by length together in this epoch; 0: none are
  int64_t max_tokens = 0;       // of a micro-batch; 0: rows are counted
  int64_t order_window = 0;     // within which samples are shuffled (Dataset::window); 0: all at once
  bool has_older_list = false;  // of a version that shuffled by a list of all samples, however many there are

  std::string Format() const;
  // InvalidArgument: no such bytes, or bytes of a version that this program does not know.
  [[nodiscard]] static absl::StatusOr<DataPosition> Parse(const std::string& bytes);
};

}  // namespace distill
