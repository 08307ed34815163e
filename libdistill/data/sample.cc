#include "libdistill/data/sample.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"

namespace distill {

absl::StatusOr<HostTensor> Sample::Find(const std::string& name) const {
  if (const auto found = tensors.find(name); found != tensors.end()) return found->second;
  const std::string there = absl::StrJoin(
      tensors, ", ", [](std::string* out, const auto& tensor) { absl::StrAppend(out, "'", tensor.first, "'"); });
  return absl::InvalidArgumentError(
      absl::StrCat("sample ", id, " has no tensor '", name, "'; it has ", there.empty() ? "none" : there));
}

absl::StatusOr<HostTensor> Sample::Find(const std::string& name, DType dtype) const {
  DISTILL_ASSIGN_OR_RETURN(HostTensor tensor, Find(name));
  if (tensor.dtype() == dtype) return tensor;
  return absl::InvalidArgumentError(
      absl::StrCat("sample ", id, ": '", name, "' is ", tensor.Describe(), ", and is read as ", NameOf(dtype)));
}

}  // namespace distill
