// The rows of a file, whatever its format, as JSON objects (docs/formats.md, "Rows"): one a line of JSON Lines or CSV,
// one a row of Parquet.
//
//   DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<RowReader> rows, OpenRows(file));
//   for (;;) {
//     DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<RowChunk> chunk, rows->NextChunk());
//     if (chunk == nullptr) break;
//     chunk->ForEach([&](absl::StatusOr<FileRow> row) { ...; return true; });   // here, or on a thread of its own
//   }
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "libdistill/store/json_value.h"
#include "libdistill/store/readable_file.h"

namespace distill {

struct FileRow {
  int64_t number = 0;  // from 1: the line where it begins (JSON Lines, CSV), or which row it is (Parquet)
  JsonValue value;     // an object, but for lines of JSON Lines that hold another value
};

// Some rows that follow one another: about a megabyte of the file, or a part of a row group. What takes time, parsing
// and decoding, happens in ForEach, so that several threads can work on several chunks.
class RowChunk {
 public:
  virtual ~RowChunk() = default;
  // Of its first row, as in FileRow.
  virtual int64_t first_row() const = 0;
  // Hands over its rows in order until `on_row` returns false: a row, or what is wrong with it (InvalidArgument,
  // beginning with PATH:NUMBER). The status is of the chunk as a whole: DataLoss, where none of its rows can be read
  // any more.
  [[nodiscard]] virtual absl::Status ForEach(absl::FunctionRef<bool(absl::StatusOr<FileRow> row)> on_row) const = 0;
  // How many rows ForEach hands over, bad ones among them: without decoding them where the format can.
  virtual int64_t CountRows() const;
};

class RowReader {
 public:
  virtual ~RowReader() = default;
  // The next chunk; null at the end. Blocks while the file is read; one thread at a time. DataLoss: the file is damaged
  // from here on. Unavailable: its store does not answer.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<RowChunk>> NextChunk() = 0;
  // Leaves out the next rows, as many as the format can without reading them, at most `most`: whole row groups of
  // Parquet, of other formats none. How many those were. One thread at a time.
  [[nodiscard]] virtual absl::StatusOr<int64_t> SkipRows(int64_t /*most*/) { return 0; }
  // Of the file as it is stored, up to the end of the last chunk.
  virtual int64_t bytes_read() const = 0;
};

struct RowFileOptions {
  std::vector<std::string> columns = {};  // of Parquet and CSV, those to read; empty: all
  // Of CSV whose first line is a row already: what its columns are called. Empty: the first line names them.
  std::vector<std::string> csv_names = {};
};

// By the file's first bytes, or else by its name: JSON Lines (also .gz and .zst), Parquet, CSV and TSV.
// InvalidArgument, with what it is and how to convert it: another format, or a damaged file. Unimplemented: Parquet
// where libdistill was built without Arrow.
[[nodiscard]] absl::StatusOr<std::unique_ptr<RowReader>> OpenRows(std::shared_ptr<const ReadableFile> file,
                                                                  const RowFileOptions& options = {});

}  // namespace distill
