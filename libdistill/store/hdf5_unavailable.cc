// In place of hdf5_file.cc and what it calls where there is no HDF5.
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/hdf5_file.h"

namespace distill {

absl::StatusOr<std::shared_ptr<const Hdf5File>> Hdf5File::Open(const std::string& path, const Hdf5Options&) {
  return absl::UnimplementedError(
      absl::StrCat(path,
                   " is HDF5, which this build of libdistill does not read: libhdf5 was missing when it was built. "
                   "Build again after scripts/setup, or convert the file"));
}

absl::StatusOr<std::shared_ptr<const Hdf5File>> Hdf5File::Open(std::shared_ptr<const ReadableFile> file,
                                                               const Hdf5Options& options) {
  return Open(file->path(), options);
}

}  // namespace distill
