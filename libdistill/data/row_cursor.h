// Rows of several files whose numbers of rows are known, one file after the other: forwards only, past those that
// nobody asks for without decoding them.
//
//   RowCursor cursor(files);
//   DISTILL_RETURN_IF_ERROR(cursor.SkipTo(120'000));
//   const int64_t first = cursor.position();              // at most 120,000: that of the chunk it lies in
//   DISTILL_ASSIGN_OR_RETURN(const auto rows, cursor.Next());
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/column_names.h"
#include "libdistill/store/readable_file.h"
#include "libdistill/store/row_reader.h"

namespace distill {

struct CountedFile {
  std::shared_ptr<const ReadableFile> bytes;
  int64_t end = 0;       // of its rows, among those of all files
  bool is_whole = true;  // false: it may have more rows, which are left out
};

struct CountedFiles {
  std::vector<CountedFile> files;
  RowFileOptions options;
  ColumnNames columns;

  // Rows of all of them.
  int64_t size() const { return files.empty() ? 0 : files.back().end; }
  // The one that row `row` lies in, from 0 to size() - 1.
  size_t FileOf(int64_t row) const;
  // The first row of a file.
  int64_t Begin(size_t file) const { return file == 0 ? 0 : files[file - 1].end; }
};

// A row with its columns renamed, or what is wrong with it.
struct PlacedRow {
  size_t file = 0;
  int64_t number = 0;  // in it, as FileRow's; 0: of a row that cannot be parsed, whose error says where
  JsonValue value;
  absl::Status status;
  int64_t memory_bytes = 0;  // that all of it takes
};
using PlacedRows = std::vector<std::shared_ptr<const PlacedRow>>;

// One thread at a time. Both functions block while files are read, and after an error the cursor is of no more use. The
// errors are those of OpenRows and RowReader; DataLoss too where a file has not as many rows as were counted.
class RowCursor {
 public:
  explicit RowCursor(std::shared_ptr<const CountedFiles> files) : files_(std::move(files)) {}

  // Of the next row.
  int64_t position() const { return position_; }
  // Forwards to the chunk that `row` lies in, below size(). Whole files, and row groups of Parquet, are not read; of
  // other files what lies before the row is read, and decompressed, but not decoded.
  [[nodiscard]] absl::Status SkipTo(int64_t row);
  // The rows of the next chunk, at least one; position() is below size().
  [[nodiscard]] absl::StatusOr<PlacedRows> Next();

 private:
  const CountedFile& file() const { return files_->files[file_]; }
  absl::Status OpenFile();
  absl::Status FetchChunk();
  absl::Status EndFile();
  absl::StatusOr<PlacedRows> Decode() const;
  absl::Status OtherCount(int64_t rows, const char* relation) const;

  const std::shared_ptr<const CountedFiles> files_;
  size_t file_ = 0;
  std::unique_ptr<RowReader> reader_;  // of the file; null: it is not open
  std::unique_ptr<RowChunk> chunk_;    // that begins at position_; null: it is not read yet
  int64_t position_ = 0;
};

}  // namespace distill
