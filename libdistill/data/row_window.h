// The rows around the place where a stream of rows stands: threads ask for any of them, and who asks for one ahead has
// the stream read on. While they are at work on those that are there, a thread of the window's own reads the next ones.
//
//   RowWindow window(files, /*first=*/0, /*window=*/8192, held);
//   DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const PlacedRow> row, window.Read(17));   // null: it has gone by
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "libdistill/data/row_cursor.h"

namespace distill {

// What the windows of a data set hold together.
struct HeldRows {
  std::atomic<int64_t> rows = 0;
  std::atomic<int64_t> memory_bytes = 0;
};

// Any thread.
class RowWindow {
 public:
  // Reads nothing yet; the first Read begins at `first`, or at the chunk that it lies in. It holds two windows of
  // `window` rows behind the highest row that was asked for, one ahead of it, and at most a chunk (store/row_reader.h)
  // more; they are counted in `held`.
  RowWindow(std::shared_ptr<const CountedFiles> files, int64_t first, int64_t window, std::shared_ptr<HeldRows> held);
  // Waits until the chunk that is being read is there.
  ~RowWindow();
  RowWindow(const RowWindow&) = delete;
  RowWindow& operator=(const RowWindow&) = delete;

  // Row `row`, for which the stream is read on where it is ahead; null where it lies behind. A row that lies more than
  // two windows ahead of those that are held is skipped to, and they are dropped. Blocks while this or another thread
  // reads. After an error of RowCursor every row that is not held has that error.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<const PlacedRow>> Read(int64_t row);

  // The rows that are held now: from `begin` on, below `end`.
  struct Range {
    int64_t begin, end;
  };
  Range range() const;

 private:
  // With mutex_ locked; ReadOn lets go of it while it reads.
  void ReadOn(std::unique_lock<std::mutex>& lock);
  void ReadAhead();
  bool IsDue() const;
  void Add(int64_t first, PlacedRows rows);
  void DropFirst(size_t count);
  int64_t end() const { return first_ + static_cast<int64_t>(rows_.size()); }

  const int64_t size_;  // of all files
  const int64_t window_;
  const std::shared_ptr<HeldRows> held_;
  RowCursor cursor_;  // of the thread that reads, without the lock

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_reading_ = false;
  int64_t highest_;  // row that was asked for
  int64_t first_;    // of rows_
  std::deque<std::shared_ptr<const PlacedRow>> rows_;
  absl::Status failed_;
  std::future<void> ahead_;  // last: its thread uses what is above
};

}  // namespace distill
