// A batch of any task: named host tensors, one sample a row. (TokenBatch is that of language models, with packing.)
//
//   DISTILL_ASSIGN_OR_RETURN(const HostTensor labels, batch.Find("label"));  // [rows]
//   loss.count = batch.Count("masked");                                      // what this loss term is divided by
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/host_tensor.h"

namespace distill {

struct Batch {
  std::vector<int64_t> sample_ids;            // of the data set, one a row; none for a rank without a row
  std::map<std::string, HostTensor> tensors;  // each with rows() as its first dimension
  std::map<std::string, int64_t> counts;      // set by a collator where a loss term counts something else than rows

  int64_t rows() const { return static_cast<int64_t>(sample_ids.size()); }
  // What a loss term is divided by, over all ranks and micro-batches: counts[name], or the rows where there is none.
  int64_t Count(const std::string& name) const;
  // InvalidArgument, with what there is: no such tensor.
  [[nodiscard]] absl::StatusOr<HostTensor> Find(const std::string& name) const;
};

}  // namespace distill
