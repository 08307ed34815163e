// Attributes of HDF5's objects. For .cc files; who calls holds the lock of the file (hdf5_file.cc).
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/store/hdf5_driver.h"
#include "libdistill/store/hdf5_file.h"

namespace distill {

// Of a group or a data set: those that are numbers or strings. `base`: what addresses in the file begin at.
[[nodiscard]] absl::StatusOr<std::vector<Hdf5Attribute>> ReadHdf5Attributes(const ReadableFile& file, int64_t base,
                                                                            Hdf5Id object);

}  // namespace distill
