// CSV and TSV: a line of names, unless they are given, then one row a line, whose values are texts (docs/formats.md,
// "Rows").
#pragma once

#include <memory>
#include <string>

#include "libdistill/store/byte_stream.h"
#include "libdistill/store/row_reader.h"

namespace distill {

// Values may be in quotes, with newlines and doubled quotes in them (RFC 4180). `path`: for messages. A row is bad
// where it has another number of values than there are names, no UTF-8, or a value longer than kMaxLineBytes of
// jsonl.h. InvalidArgument: no names, or one of them twice; a column that is asked for and not there.
[[nodiscard]] absl::StatusOr<std::unique_ptr<RowReader>> OpenCsvRows(std::unique_ptr<ByteStream> bytes,
                                                                     std::string path, char delimiter,
                                                                     const RowFileOptions& options);

}  // namespace distill
