// Rows of JSON Lines files as samples that are read when they are needed, from a local disk or out of S3: of data that
// no memory holds. Rows are found by an index of lines (store/line_index.h).
//
//   DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<Dataset> rows, OpenJsonlDataset("s3://bucket/rows", make_sample, {}));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/data/dataset.h"
#include "libdistill/data/row_options.h"
#include "libdistill/store/json_value.h"

namespace distill {

struct JsonlDatasetOptions {
  std::string split = "";         // of a folder: the files whose names start with it
  std::string columns = "";       // as in column_names.h
  int64_t num_samples = 0;        // 0: all; otherwise the first ones
  std::string length_of = "";     // the tensor whose first dimension is a sample's length; empty: all have length 1
  std::string index_folder = "";  // where indices are kept; empty: in memory
  int64_t threads = 4;            // that make the index
};

// Makes a sample of a row; called by any thread. Its error is that of Read, with file and line.
using MakeSample = std::function<absl::StatusOr<Sample>(const JsonValue& row)>;

// Reads the files once, to index them, where no index is kept. Each Read reads its row, and so does each Length with
// `length_of`: batches by length then cost a pass over the data. InvalidArgument: a compressed file or one of another
// format, none of whose rows can be read by itself; no rows. NotFound: no such file. Errors of Read: broken JSON, a row
// longer than kMaxLineBytes, what `make` says, and the store's; a bad row cannot be left out, since it is found when it
// is due.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Dataset>> OpenJsonlDataset(const std::string& path, MakeSample make,
                                                                        const JsonlDatasetOptions& options);

// Whether a file's rows can be read so: it is uncompressed JSON Lines, and its name says nothing else. Reads its first
// bytes; the errors are the store's.
[[nodiscard]] absl::StatusOr<bool> HasRowsByThemselves(const std::string& path);

// InvalidArgument where bad rows are to be left out: they are found when they are due.
[[nodiscard]] absl::Status CheckCanBeReadByRows(const RowOptions& rows);

}  // namespace distill
