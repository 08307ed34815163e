// Where the lines of a JSON Lines file begin, so that any of its rows can be read by itself: from a local disk or out
// of S3, whatever the size of the file.
//
//   DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const ReadableFile> file, OpenFile("s3://bucket/train.jsonl"));
//   DISTILL_ASSIGN_OR_RETURN(auto lines, LineIndex::Open(file, {.folder = "/var/cache/lines", .threads = 8}));
//   const LineIndex::Line line = lines->line(17);    // the 18th row of the file
//
// The index is made by one pass over the file, 8 bytes a row, and kept in a folder (index_file.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/store/index_file.h"
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

  // Blocks while the file is read, or while another process makes the index. The errors are those of
  // ReadableFile::ReadAt.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const LineIndex>> Open(const ReadableFile& file,
                                                                             const LineIndexOptions& options = {});

  // Rows: lines that are not blank.
  int64_t size() const { return static_cast<int64_t>(lists_.first.size()); }
  // `row` is from 0 to size() - 1. Any thread.
  Line line(int64_t row) const;
  // Of all lines' places: the same for files whose rows are equally long.
  uint64_t hash() const { return lists_.hash; }
  // That the index takes; 0: it is mapped.
  int64_t MemoryBytes() const { return lists_.memory_bytes; }

 private:
  class Scan;
  LineIndex() = default;
  static absl::StatusOr<MadeIndex> Make(const ReadableFile& file, const LineIndexOptions& options);

  int64_t file_bytes_ = 0;
  IndexLists lists_;  // where rows begin; for each blank line the number of rows before it
};

}  // namespace distill
