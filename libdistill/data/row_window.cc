#include "libdistill/data/row_window.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {

RowWindow::RowWindow(std::shared_ptr<const CountedFiles> files, int64_t first, int64_t window,
                     std::shared_ptr<HeldRows> held)
    : size_(files->size()),
      window_(window),
      held_(std::move(held)),
      cursor_(std::move(files)),
      highest_(first),
      first_(first) {}

RowWindow::~RowWindow() {
  {
    const std::lock_guard lock(mutex_);
    failed_ = absl::CancelledError("nobody asks for rows any more");  // so that its thread ends
  }
  if (ahead_.valid()) ahead_.wait();
  DropFirst(rows_.size());
}

RowWindow::Range RowWindow::range() const {
  const std::lock_guard lock(mutex_);
  return {first_, end()};
}

absl::StatusOr<std::shared_ptr<const PlacedRow>> RowWindow::Read(int64_t row) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (row < first_) return nullptr;
    highest_ = std::max(highest_, row);
    if (row < end()) break;
    if (!failed_.ok()) return failed_;
    if (is_reading_) {
      changed_.wait(lock);
    } else {
      is_reading_ = true;
      ReadOn(lock);
      is_reading_ = false;
    }
  }
  std::shared_ptr<const PlacedRow> found = rows_[static_cast<size_t>(row - first_)];
  if (!is_reading_ && IsDue()) ReadAhead();
  return found;
}

// Whether the thread has rows to read.
bool RowWindow::IsDue() const { return failed_.ok() && end() < std::min(size_, highest_ + window_); }

void RowWindow::ReadAhead() {
  is_reading_ = true;
  try {
    ahead_ = std::async(std::launch::async, [this] {
      std::unique_lock lock(mutex_);
      while (IsDue()) ReadOn(lock);
      is_reading_ = false;
      changed_.notify_all();
    });
  } catch (const std::system_error&) {  // no thread is to be had: who asks for the rows reads them
    is_reading_ = false;
  }
}

// A chunk. Others take rows that are there meanwhile.
void RowWindow::ReadOn(std::unique_lock<std::mutex>& lock) {
  const int64_t behind = highest_ - 2 * window_, target = std::max(end(), behind);
  if (behind > first_) DropFirst(static_cast<size_t>(std::min(behind, end()) - first_));
  lock.unlock();
  int64_t first = 0;
  const auto read = [&]() -> absl::StatusOr<PlacedRows> {
    try {
      DISTILL_RETURN_IF_ERROR(cursor_.SkipTo(target));
      first = cursor_.position();
      return cursor_.Next();
    } catch (const std::exception& error) {  // others must not wait for ever
      return absl::ResourceExhaustedError(
          absl::StrCat("rows cannot be streamed: ", error.what(), "; lower window_rows"));
    }
  };
  absl::StatusOr<PlacedRows> rows = read();
  lock.lock();
  if (rows.ok()) {
    Add(first, *std::move(rows));
  } else {
    failed_.Update(rows.status());
  }
  changed_.notify_all();
}

void RowWindow::Add(int64_t first, PlacedRows rows) {
  if (first != end()) {
    DropFirst(rows_.size());
    first_ = first;
  }
  for (std::shared_ptr<const PlacedRow>& row : rows) {
    held_->memory_bytes += row->memory_bytes;
    rows_.push_back(std::move(row));
  }
  held_->rows += static_cast<int64_t>(rows.size());
}

void RowWindow::DropFirst(size_t count) {
  for (size_t i = 0; i < count; ++i) held_->memory_bytes -= rows_[i]->memory_bytes;
  rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(count));
  first_ += static_cast<int64_t>(count);
  held_->rows -= static_cast<int64_t>(count);
}

}  // namespace distill
