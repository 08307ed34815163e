// The rows around the place where a stream of rows stands: threads ask for any of them, and who asks for one ahead has
// the stream read on.
//
//   RowWindow window(files, /*first=*/0, /*window=*/8192, held);
//   DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const PlacedRow> row, window.Read(17));   // null: it has gone by
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "libdistill/data/row_cursor.h"

namespace distill {

// Any thread.
class RowWindow {
 public:
  // Reads nothing yet; the first Read begins at `first`, or at the chunk that it lies in. It holds at most two windows
  // of `window` rows and a chunk (store/row_reader.h), which `held` counts.
  RowWindow(std::shared_ptr<const CountedFiles> files, int64_t first, int64_t window,
            std::shared_ptr<std::atomic<int64_t>> held);
  ~RowWindow();
  RowWindow(const RowWindow&) = delete;
  RowWindow& operator=(const RowWindow&) = delete;

  // Row `row`, for which the stream is read on where it is ahead; null where it lies behind. Rows that lie more than
  // two windows ahead of the others are skipped to, and the others are dropped. Blocks while this or another thread
  // reads. After an error of RowCursor every row that is not held has that error.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<const PlacedRow>> Read(int64_t row);

  // The rows that are held now: from `begin` on, below `end`.
  struct Range {
    int64_t begin, end;
  };
  Range range() const;

 private:
  void ReadOn(std::unique_lock<std::mutex>& lock, int64_t row);
  void Add(int64_t first, PlacedRows rows);
  void DropFirst(size_t count);
  int64_t end() const { return first_ + static_cast<int64_t>(rows_.size()); }

  const int64_t window_;
  const std::shared_ptr<std::atomic<int64_t>> held_;
  RowCursor cursor_;  // of the thread that reads, without the lock

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_reading_ = false;
  int64_t first_;  // of rows_
  std::deque<std::shared_ptr<const PlacedRow>> rows_;
  absl::Status failed_;
};

}  // namespace distill
