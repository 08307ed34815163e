// Where the lines of a JSON Lines file begin, so that any of its rows can be read by itself: from a local disk or out
// of S3, whatever the size of the file.
//
//   DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const ReadableFile> file, OpenFile("s3://bucket/train.jsonl"));
//   DISTILL_ASSIGN_OR_RETURN(auto lines, LineIndex::Open(file, {.folder = "/var/cache/lines", .threads = 8}));
//   const LineIndex::Line line = lines->line(17);    // the 18th row of the file
//
// The index is made by one pass over the file, 8 bytes a row, and kept in a folder under a hash of the file's path,
// size and version, from where the other processes of the host, and the next start, map it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libdistill/store/file_bytes.h"
#include "libdistill/store/readable_file.h"

namespace distill {

struct LineIndexOptions {
  std::string folder = "";                // local, where indices are kept; made where it is missing; empty: in memory
  int64_t threads = 1;                    // that read the file at the same time
  int64_t part_bytes = int64_t{8} << 20;  // of one read
};

class LineIndex {
 public:
  struct Line {
    int64_t offset = 0;
    int64_t bytes = 0;   // up to the next row's: the newline, and blank lines behind it, are among them
    int64_t number = 0;  // from 1, blank lines counted: for messages
  };

  // Blocks while the file is read, or while another process makes the index. A kept index that is damaged is made
  // anew; where the folder cannot be written, a warning says so and the index stays in memory. The errors are those of
  // ReadableFile::ReadAt.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const LineIndex>> Open(const ReadableFile& file,
                                                                             const LineIndexOptions& options = {});

  // Rows: lines that are not blank.
  int64_t size() const { return static_cast<int64_t>(begins_.size()); }
  // `row` is from 0 to size() - 1. Any thread.
  Line line(int64_t row) const;
  // Of all lines' places: the same for files whose rows are equally long.
  uint64_t hash() const { return hash_; }

 private:
  class Scan;
  LineIndex() = default;
  static absl::StatusOr<std::shared_ptr<LineIndex>> Make(const ReadableFile& file, const LineIndexOptions& options);
  static absl::StatusOr<std::shared_ptr<LineIndex>> Load(const std::string& path, int64_t file_bytes);
  absl::Status Save(const std::string& path) const;
  void Use(std::shared_ptr<const void> owner, absl::Span<const uint64_t> begins, absl::Span<const uint64_t> blanks);

  int64_t file_bytes_ = 0;
  uint64_t hash_ = 0;
  std::shared_ptr<const void> owner_;  // of what the spans show: a mapped file, or lists
  absl::Span<const uint64_t> begins_;  // of the rows
  absl::Span<const uint64_t> blanks_;  // for each blank line the number of rows before it
};

}  // namespace distill
