// Attributes and layout as the header of an HDF5 object has them. For .cc files.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/store/readable_file.h"

namespace distill {

// The bytes of the attribute's values, before any conversion. `address`: of the object, where addresses of the file
// begin at `base`. InvalidArgument: the object has so many attributes that they lie elsewhere ("dense").
[[nodiscard]] absl::StatusOr<std::string> ReadRawHdf5Attribute(const ReadableFile& file, int64_t base, int64_t address,
                                                               const std::string& name);

// DataLoss where HDF5 1.10 would divide by zero, for the chunks of a data set, or read attributes beyond the end of the
// header.
[[nodiscard]] absl::Status CheckHdf5Header(const ReadableFile& file, int64_t base, int64_t address);

}  // namespace distill
