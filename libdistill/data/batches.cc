#include "libdistill/data/batches.h"

namespace distill {

absl::StatusOr<std::vector<SampleRow>> ReadRows(const Dataset& dataset, const IndexRows& rows) {
  std::vector<SampleRow> all;
  all.reserve(rows.size());
  for (const std::vector<int64_t>& indices : rows) {
    SampleRow row;
    row.reserve(indices.size());
    for (const int64_t index : indices) {
      DISTILL_ASSIGN_OR_RETURN(Sample sample, dataset.Read(index));
      row.push_back(std::move(sample));
    }
    all.push_back(std::move(row));
  }
  return all;
}

}  // namespace distill
