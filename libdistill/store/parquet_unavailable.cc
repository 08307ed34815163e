// In place of parquet.cc where there is no Arrow.
#include "absl/strings/str_cat.h"
#include "libdistill/store/parquet.h"

namespace distill {

absl::StatusOr<std::unique_ptr<RowReader>> OpenParquetRows(std::shared_ptr<const ReadableFile> file,
                                                           const RowFileOptions&) {
  return absl::UnimplementedError(absl::StrCat(
      file->path(),
      " is Parquet, which this build of libdistill does not read: Arrow was missing when it was built. Build again "
      "after scripts/setup, or convert the file to JSON Lines"));
}

}  // namespace distill
