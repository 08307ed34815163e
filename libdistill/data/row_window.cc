#include "libdistill/data/row_window.h"

#include <algorithm>
#include <utility>

#include "libdistill/core/status_macros.h"

namespace distill {

RowWindow::RowWindow(std::shared_ptr<const CountedFiles> files, int64_t first, int64_t window,
                     std::shared_ptr<std::atomic<int64_t>> held)
    : window_(window), held_(std::move(held)), cursor_(std::move(files)), first_(first) {}

RowWindow::~RowWindow() { DropFirst(rows_.size()); }

RowWindow::Range RowWindow::range() const {
  const std::lock_guard lock(mutex_);
  return {first_, end()};
}

absl::StatusOr<std::shared_ptr<const PlacedRow>> RowWindow::Read(int64_t row) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (row < first_) return nullptr;
    if (row < end()) return rows_[static_cast<size_t>(row - first_)];
    if (!failed_.ok()) return failed_;
    if (is_reading_) {
      changed_.wait(lock);
    } else {
      ReadOn(lock, row);
    }
  }
}

// A chunk. The lock is held before and after it, but others take rows that are there meanwhile.
void RowWindow::ReadOn(std::unique_lock<std::mutex>& lock, int64_t row) {
  const int64_t target = std::max(end(), row - 2 * window_);
  if (std::ssize(rows_) > 2 * window_) DropFirst(rows_.size() - static_cast<size_t>(2 * window_));
  is_reading_ = true;
  lock.unlock();
  int64_t first = 0;
  const auto read = [&]() -> absl::StatusOr<PlacedRows> {
    DISTILL_RETURN_IF_ERROR(cursor_.SkipTo(target));
    first = cursor_.position();
    return cursor_.Next();
  };
  absl::StatusOr<PlacedRows> rows = PlacedRows();
  try {
    rows = read();
  } catch (...) {  // there is no memory: others must not wait for ever
    lock.lock();
    is_reading_ = false;
    failed_ = absl::ResourceExhaustedError("there was no memory for rows that are streamed");
    changed_.notify_all();
    throw;
  }
  lock.lock();
  is_reading_ = false;
  if (rows.ok()) {
    Add(first, *std::move(rows));
  } else {
    failed_ = rows.status();
  }
  changed_.notify_all();
}

void RowWindow::Add(int64_t first, PlacedRows rows) {
  if (first != end()) {
    DropFirst(rows_.size());
    first_ = first;
  }
  for (std::shared_ptr<const PlacedRow>& row : rows) rows_.push_back(std::move(row));
  *held_ += static_cast<int64_t>(rows.size());
}

void RowWindow::DropFirst(size_t count) {
  rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(count));
  first_ += static_cast<int64_t>(count);
  *held_ -= static_cast<int64_t>(count);
}

}  // namespace distill
