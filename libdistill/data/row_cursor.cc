#include "libdistill/data/row_cursor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {

size_t CountedFiles::FileOf(int64_t row) const {
  const auto file = std::upper_bound(files.begin(), files.end(), row,
                                     [](int64_t wanted, const CountedFile& one) { return wanted < one.end; });
  return static_cast<size_t>(file - files.begin());
}

absl::Status RowCursor::OtherCount(int64_t rows, const char* relation) const {
  return absl::DataLossError(absl::StrCat(file().bytes->path(), ": has ", relation, " ", rows, " rows, but ",
                                          file().end - files_->Begin(file_),
                                          " were counted: was it written anew? Start again"));
}

absl::Status RowCursor::OpenFile() {
  if (reader_ != nullptr && position_ < file().end) return absl::OkStatus();
  chunk_ = nullptr;
  file_ = files_->FileOf(position_);
  DISTILL_ASSIGN_OR_RETURN(reader_, OpenRows(file().bytes, files_->options));
  return absl::OkStatus();
}

absl::Status RowCursor::FetchChunk() {
  DISTILL_ASSIGN_OR_RETURN(chunk_, reader_->NextChunk());
  if (chunk_ != nullptr) return absl::OkStatus();
  return OtherCount(position_ - files_->Begin(file_), "only");
}

absl::Status RowCursor::SkipTo(int64_t row) {
  while (position_ < row) {
    if (const int64_t begin = files_->Begin(files_->FileOf(row)); begin > position_) {
      position_ = begin;
      reader_ = nullptr;
      continue;
    }
    DISTILL_RETURN_IF_ERROR(OpenFile());
    if (chunk_ == nullptr) {
      DISTILL_ASSIGN_OR_RETURN(const int64_t skipped, reader_->SkipRows(row - position_));
      position_ += skipped;
      if (skipped > 0) continue;
      DISTILL_RETURN_IF_ERROR(FetchChunk());
    }
    const int64_t rows = chunk_->CountRows();
    if (position_ + rows > row) break;
    position_ += rows;
    chunk_ = nullptr;
  }
  return absl::OkStatus();
}

absl::StatusOr<PlacedRows> RowCursor::Decode() const {
  PlacedRows rows;
  DISTILL_RETURN_IF_ERROR(chunk_->ForEach([&](absl::StatusOr<FileRow> row) {
    auto placed = std::make_shared<PlacedRow>();
    placed->file = file_;
    placed->status = row.status();
    if (row.ok()) {
      placed->number = row->number;
      placed->value = std::move(row->value);
      placed->status = files_->columns.Rename(placed->value);
    }
    placed->memory_bytes = static_cast<int64_t>(sizeof(PlacedRow) - sizeof(JsonValue)) + placed->value.MemoryBytes();
    rows.push_back(std::move(placed));
    return true;
  }));
  return rows;
}

// The end of a compressed file says whether its bytes are those that were written.
absl::Status RowCursor::EndFile() {
  for (;;) {
    DISTILL_ASSIGN_OR_RETURN(chunk_, reader_->NextChunk());
    if (chunk_ == nullptr) break;
    if (chunk_->CountRows() > 0) return OtherCount(position_ - files_->Begin(file_), "more than");
  }
  reader_ = nullptr;
  return absl::OkStatus();
}

absl::StatusOr<PlacedRows> RowCursor::Next() {
  PlacedRows rows;
  while (rows.empty()) {
    DISTILL_RETURN_IF_ERROR(OpenFile());
    if (chunk_ == nullptr) DISTILL_RETURN_IF_ERROR(FetchChunk());
    DISTILL_ASSIGN_OR_RETURN(rows, Decode());
    chunk_ = nullptr;
  }
  const int64_t left = file().end - position_;
  if (static_cast<int64_t>(rows.size()) > left) {
    if (file().is_whole) return OtherCount(file().end - files_->Begin(file_), "more than");
    rows.resize(static_cast<size_t>(left));
  }
  position_ += static_cast<int64_t>(rows.size());
  if (position_ == file().end && file().is_whole) DISTILL_RETURN_IF_ERROR(EndFile());
  return rows;
}

}  // namespace distill
