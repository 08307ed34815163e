// Numbers of HDF5 files as this machine's.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libdistill/store/hdf5_file.h"

namespace distill {

// `bytes` holds as many elements as `out`. T: float, double, int32_t, int64_t, uint8_t. InvalidArgument: the type is no
// number, or T cannot hold a value exactly (of a float64, nearly), with the first such value.
template <typename T>
[[nodiscard]] absl::Status ConvertNumbers(const Hdf5Type& type, absl::string_view bytes, absl::Span<T> out);

}  // namespace distill
