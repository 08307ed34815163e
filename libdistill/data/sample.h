// One sample of a data set, and a batch of samples: named host tensors. Which names there are is between a data set and
// the collator that reads it: "ids", "is_target", "label", "features", "targets", ...
//
//   DISTILL_ASSIGN_OR_RETURN(const HostTensor labels, batch.Find("label"));  // [rows]
//   loss.count = batch.Count("masked");                                      // what this loss term is divided by
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libdistill/data/host_tensor.h"

namespace distill {

struct Sample {
  int64_t id = 0;  // its position in the data set: the same in every run, whoever reads it
  std::map<std::string, HostTensor> tensors;

  // InvalidArgument, with the sample and what it has: no such tensor.
  [[nodiscard]] absl::StatusOr<HostTensor> Find(const std::string& name) const;
  // The values of a tensor of type T, valid as long as one of its copies is. InvalidArgument: none, or of another type.
  template <typename T>
  [[nodiscard]] absl::StatusOr<absl::Span<const T>> Get(const std::string& name) const {
    const absl::StatusOr<HostTensor> tensor = Find(name, DTypeOf<T>());
    if (!tensor.ok()) return tensor.status();
    return tensor->values<T>();
  }
  [[nodiscard]] absl::StatusOr<HostTensor> Find(const std::string& name, DType dtype) const;
};

// The samples of one row of a batch, in order: one, or several with packing.
using SampleRow = std::vector<Sample>;

// A batch of any task, one sample a row. (TokenBatch is that of language models, with packing.)
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
