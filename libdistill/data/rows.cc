#include "libdistill/data/rows.h"

#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/bad_row_list.h"
#include "libdistill/data/column_names.h"
#include "libdistill/data/row_files.h"
#include "libdistill/data/row_progress.h"
#include "libdistill/store/readable_file.h"
#include "libdistill/store/row_reader.h"

namespace distill {
namespace {

constexpr int64_t kPlacesShown = 5;

std::string BaseName(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

int64_t BytesOf(const std::vector<std::shared_ptr<const ReadableFile>>& files) {
  int64_t bytes = 0;
  for (const auto& file : files) bytes += file->size();
  return bytes;
}

absl::StatusOr<std::vector<std::shared_ptr<const ReadableFile>>> OpenRowFiles(const std::string& path,
                                                                              const std::string& split) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, FindRowFiles(path, split));
  std::vector<std::shared_ptr<const ReadableFile>> files;
  for (const std::string& name : names) {
    DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const ReadableFile> file, OpenFile(name));
    files.push_back(std::move(file));
  }
  return files;
}

using OnRow = absl::FunctionRef<absl::StatusOr<bool>(const JsonValue& row, const std::string& place)>;

// What happens to each row of the files: whether another one is wanted.
class RowLoop {
 public:
  RowLoop(const std::string& path, int64_t bytes, const RowOptions& options, const ColumnNames& columns, OnRow on_row)
      : bad_(path, options), progress_(BaseName(path), bytes), columns_(columns), on_row_(on_row) {}

  // False: no more rows are wanted, or an error ended it.
  bool Take(const std::string& file, absl::StatusOr<FileRow> row, int64_t bytes) {
    const absl::StatusOr<bool> wants_more = row.ok() ? Use(file, *row) : row.status();
    progress_.Tell(++rows_, bytes);
    if (wants_more.ok()) return *wants_more;
    if (!absl::IsInvalidArgument(wants_more.status())) {
      error_ = wants_more.status();
      return false;
    }
    bad_.Add(wants_more.status());
    return !bad_.is_full();
  }

  absl::Status Finish() const { return error_.ok() ? bad_.Finish(rows_) : error_; }

 private:
  absl::StatusOr<bool> Use(const std::string& file, FileRow& row) {
    const std::string number = absl::StrCat(":", row.number);
    const absl::Status renamed = columns_.Rename(row.value);
    absl::StatusOr<bool> wants_more = true;
    if (renamed.ok()) {
      wants_more = on_row_(row.value, absl::StrCat(BaseName(file), number));
    } else {
      wants_more = renamed;
    }
    return wants_more.ok() ? wants_more : Annotate(wants_more.status(), absl::StrCat(file, number));
  }

  BadRowList bad_;
  RowProgress progress_;
  const ColumnNames& columns_;
  OnRow on_row_;
  int64_t rows_ = 0;
  absl::Status error_;
};

}  // namespace

absl::Status ForEachRow(const std::string& path, const std::string& split, const RowOptions& options, OnRow on_row) {
  DISTILL_ASSIGN_OR_RETURN(const ColumnNames columns, ColumnNames::Parse(options.columns));
  DISTILL_ASSIGN_OR_RETURN(const auto files, OpenRowFiles(path, split));
  RowLoop loop(path, BytesOf(files), options, columns, on_row);
  int64_t bytes = 0;  // of the files before this one
  for (const auto& file : files) {
    DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<RowReader> rows, OpenRows(file));
    bool wants_more = true;
    while (wants_more) {
      DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<RowChunk> chunk, rows->NextChunk());
      if (chunk == nullptr) break;
      DISTILL_RETURN_IF_ERROR(chunk->ForEach([&](absl::StatusOr<FileRow> row) {
        return wants_more = loop.Take(file->path(), std::move(row), bytes + rows->bytes_read());
      }));
    }
    if (!wants_more) break;
    bytes += file->size();
  }
  return loop.Finish();
}

absl::Status CheckRowFiles(const std::string& path, const std::string& split) {
  DISTILL_ASSIGN_OR_RETURN(const auto files, OpenRowFiles(path, split));
  for (const auto& file : files) DISTILL_RETURN_IF_ERROR(OpenRows(file).status());
  return absl::OkStatus();
}

absl::StatusOr<const JsonValue*> FieldOf(const JsonValue& row, const std::string& name) {
  if (row.kind != JsonValue::Kind::kObject) {
    return absl::InvalidArgumentError(
        absl::StrCat("the row is not a JSON object; a row is one sample, {\"", name, "\": ...}"));
  }
  if (const JsonValue* value = row.Find(name)) return value;
  const std::string there = absl::StrJoin(
      row.members, ", ", [](std::string* out, const auto& member) { absl::StrAppend(out, "'", member.first, "'"); });
  return absl::InvalidArgumentError(absl::StrCat("the field '", name, "' is missing; the row has ",
                                                 there.empty() ? "none" : there, ": name the column, or add it"));
}

absl::StatusOr<std::string> TextOf(const JsonValue& row, const std::string& name) {
  DISTILL_ASSIGN_OR_RETURN(const JsonValue* value, FieldOf(row, name));
  if (value->kind == JsonValue::Kind::kString) return value->text;
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not a string; write the text itself, in quotes"));
}

absl::StatusOr<int64_t> WholeNumberOf(const JsonValue& value, const std::string& what) {
  constexpr double kMost = 9007199254740992;  // 2^53: beyond, doubles leave whole numbers out
  if (value.kind == JsonValue::Kind::kNumber && value.number >= 0 && value.number <= kMost &&
      std::floor(value.number) == value.number) {
    return static_cast<int64_t>(value.number);
  }
  return absl::InvalidArgumentError(absl::StrCat("'", what, "' is not a whole number from 0"));
}

void CountedRows::Add(const std::string& place) {
  if (++count <= kPlacesShown) places.push_back(place);
}

std::string CountedRows::Describe(absl::string_view reason) const {
  if (count == 0) return "";
  return absl::StrCat(", ", reason, " ", count, " (first: ", absl::StrJoin(places, ", "), ")");
}

absl::Status CheckLimits(int64_t max_length, int64_t least, int64_t num_samples) {
  if (max_length < least) {
    return absl::InvalidArgumentError(absl::StrCat("max_length is ", max_length, ": at least ", least, " is needed"));
  }
  if (num_samples < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_samples is ", num_samples, ": it cannot be negative; 0 takes all rows"));
  }
  return absl::OkStatus();
}

}  // namespace distill
