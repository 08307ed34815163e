// One sample of a data set: named host tensors. Which names there are is between a data set and the collator that
// reads it: "ids", "is_target", "label", "features", "targets", ...
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
    const absl::StatusOr<HostTensor> tensor = Find(name, DTypeOf<T>::kValue);
    if (!tensor.ok()) return tensor.status();
    return tensor->values<T>();
  }
  [[nodiscard]] absl::StatusOr<HostTensor> Find(const std::string& name, DType dtype) const;
};

// The samples of one row of a batch, in order: one, or several with packing.
using SampleRow = std::vector<Sample>;

}  // namespace distill
