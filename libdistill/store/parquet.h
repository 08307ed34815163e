// Parquet files, a row group at a time (docs/formats.md, "Rows").
#pragma once

#include <memory>

#include "libdistill/store/row_reader.h"

namespace distill {

// Reads the footer. Only the columns that are asked for are read and decoded. InvalidArgument: no Parquet file, a
// column that is not there, or one of a type that no JSON value holds (binary, decimal, time stamps), named. DataLoss:
// damaged. Unimplemented: libdistill was built without Arrow.
[[nodiscard]] absl::StatusOr<std::unique_ptr<RowReader>> OpenParquetRows(std::shared_ptr<const ReadableFile> file,
                                                                         const RowFileOptions& options);

}  // namespace distill
