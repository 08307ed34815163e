// How many rows a file has, whatever its format: what a data set that streams it must know before it begins.
//
//   DISTILL_ASSIGN_OR_RETURN(const RowCount count, CountRows(file, {}, {.folder = "/var/cache/lines"}));
//
// Of Parquet the footer says it. Other files are read once, and the count is kept in a folder (index_file.h), so that
// the next start reads nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/store/row_reader.h"

namespace distill {

struct RowCountOptions {
  std::string folder = "";  // local, where counts are kept; made where it is missing; empty: nowhere
  int64_t most = 0;         // it is enough to know that there are so many rows; 0: all are counted
  // So many rows were counted, of so many bytes of the file; empty: nobody is told.
  std::function<void(int64_t rows, int64_t bytes)> on_chunk = {};
};

struct RowCount {
  int64_t rows = 0;
  bool is_whole = true;  // false: counting ended at `most` rows or some more, and the file may have others
};

// Rows that cannot be parsed count, too. Blocks while the file is read, or while another process counts the same. The
// errors are those of OpenRows and RowReader: a damaged file is found here, unless its count is kept or `most` rows
// come before the damage.
[[nodiscard]] absl::StatusOr<RowCount> CountRows(std::shared_ptr<const ReadableFile> file, const RowFileOptions& rows,
                                                 const RowCountOptions& options);

}  // namespace distill
