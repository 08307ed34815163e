#include "libdistill/data/host_tensor.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/check.h"

namespace distill {

HostTensor::HostTensor(DType dtype, std::vector<int64_t> shape) : dtype_(dtype), shape_(std::move(shape)), size_(1) {
  for (const int64_t extent : shape_) {
    DISTILL_CHECK(extent >= 0, absl::StrCat("a tensor of shape [", absl::StrJoin(shape_, ", "), "]"));
    size_ *= extent;
  }
}

void HostTensor::CheckCount(int64_t values) const {
  DISTILL_CHECK(values == size_, absl::StrCat(values, " values for a tensor of ", Describe()));
}

void HostTensor::CheckType(DType dtype) const {
  DISTILL_CHECK(dtype == dtype_, absl::StrCat("values of ", NameOf(dtype), " out of a tensor of ", Describe()));
}

std::string HostTensor::Describe() const {
  return absl::StrCat(NameOf(dtype_), " [", absl::StrJoin(shape_, ", "), "]");
}

bool operator==(const HostTensor& a, const HostTensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.size_bytes() == 0 || std::memcmp(a.data(), b.data(), static_cast<size_t>(a.size_bytes())) == 0);
}

}  // namespace distill
