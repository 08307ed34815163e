#include "libdistill/data/batch.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace distill {

int64_t Batch::Count(const std::string& name) const {
  const auto found = counts.find(name);
  return found == counts.end() ? rows() : found->second;
}

absl::StatusOr<HostTensor> Batch::Find(const std::string& name) const {
  if (const auto found = tensors.find(name); found != tensors.end()) return found->second;
  const std::string there = absl::StrJoin(
      tensors, ", ", [](std::string* out, const auto& tensor) { absl::StrAppend(out, "'", tensor.first, "'"); });
  return absl::InvalidArgumentError(
      absl::StrCat("the batch has no tensor '", name, "'; it has ", there.empty() ? "none" : there));
}

}  // namespace distill
