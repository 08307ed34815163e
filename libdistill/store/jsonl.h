// JSON Lines: one JSON value a line (docs/formats.md, "Rows").
#pragma once

#include <memory>
#include <string>

#include "libdistill/store/byte_stream.h"
#include "libdistill/store/row_reader.h"

namespace distill {

constexpr size_t kMaxLineBytes = size_t{64} << 20;

// `path`: for messages. Blank lines are skipped, but counted. A line is bad, and named, where it is no JSON, no UTF-8,
// nested deeper than kMaxJsonDepth or longer than kMaxLineBytes; the lines after it are read.
std::unique_ptr<RowReader> OpenJsonlRows(std::unique_ptr<ByteStream> bytes, std::string path);

}  // namespace distill
