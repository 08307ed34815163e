#include "libdistill/data/sample.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

absl::StatusOr<HostTensor> FindIn(const std::map<std::string, HostTensor>& tensors, const std::string& name,
                                  const std::string& holder) {
  if (const auto found = tensors.find(name); found != tensors.end()) return found->second;
  const std::string there = absl::StrJoin(
      tensors, ", ", [](std::string* out, const auto& tensor) { absl::StrAppend(out, "'", tensor.first, "'"); });
  return absl::InvalidArgumentError(
      absl::StrCat(holder, " has no tensor '", name, "'; it has ", there.empty() ? "none" : there));
}

}  // namespace

absl::StatusOr<HostTensor> Sample::Find(const std::string& name) const {
  return FindIn(tensors, name, absl::StrCat("sample ", id));
}

absl::StatusOr<HostTensor> Sample::Find(const std::string& name, DType dtype) const {
  DISTILL_ASSIGN_OR_RETURN(HostTensor tensor, Find(name));
  if (tensor.dtype() == dtype) return tensor;
  return absl::InvalidArgumentError(
      absl::StrCat("sample ", id, ": '", name, "' is ", tensor.Describe(), ", and is read as ", NameOf(dtype)));
}

int64_t Batch::Count(const std::string& name) const {
  const auto found = counts.find(name);
  return found == counts.end() ? rows() : found->second;
}

absl::StatusOr<HostTensor> Batch::Find(const std::string& name) const { return FindIn(tensors, name, "the batch"); }

}  // namespace distill
