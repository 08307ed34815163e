#include "libdistill/store/csv.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/store/jsonl.h"

namespace distill {
namespace {

// Where in a row the reader stands. A quote opens a quoted value only as the first character of it; elsewhere it is a
// character like others, as in Python's csv.
enum class CsvState { kValueBegins, kPlain, kQuoted, kQuoteInQuoted };

CsvState After(CsvState state, char c, char delimiter) {
  switch (state) {
    case CsvState::kQuoted:
      return c == '"' ? CsvState::kQuoteInQuoted : CsvState::kQuoted;
    case CsvState::kQuoteInQuoted:
      if (c == '"') return CsvState::kQuoted;  // two of them are one
      break;
    case CsvState::kValueBegins:
      if (c == '"') return CsvState::kQuoted;
      break;
    case CsvState::kPlain:
      break;
  }
  return c == delimiter || c == '\n' ? CsvState::kValueBegins : CsvState::kPlain;
}

bool EndsRow(CsvState before, char c) { return c == '\n' && before != CsvState::kQuoted; }

// Takes a row from the front of `text`, with the newline that ends it.
std::vector<std::string> TakeRow(absl::string_view& text, char delimiter) {
  std::vector<std::string> values(1);
  CsvState state = CsvState::kValueBegins;
  size_t i = 0;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    const CsvState after = After(state, c, delimiter);
    if (EndsRow(state, c)) break;
    if (after == CsvState::kValueBegins) {
      values.emplace_back();
    } else if (after != CsvState::kQuoteInQuoted && !(state == CsvState::kValueBegins && after == CsvState::kQuoted)) {
      values.back() += c;
    }
    state = after;
  }
  // The carriage return of a Windows line end, but not one that is quoted.
  if (state == CsvState::kPlain && !values.back().empty() && values.back().back() == '\r') values.back().pop_back();
  text.remove_prefix(std::min(i + 1, text.size()));
  return values;
}

// A blank line's values.
bool IsBlank(const std::vector<std::string>& values) { return values.size() == 1 && values[0].empty(); }

struct CsvColumns {
  std::vector<std::string> names;  // what each row's values are called; "" for a column that is not asked for
  const char* named_by;            // "the first line names", for messages
};

class CsvChunk : public RowChunk {
 public:
  CsvChunk(std::string path, int64_t first_line, std::string text, char delimiter,
           std::shared_ptr<const CsvColumns> columns)
      : path_(std::move(path)),
        first_line_(first_line),
        text_(std::move(text)),
        delimiter_(delimiter),
        columns_(std::move(columns)) {}

  int64_t first_row() const override { return first_line_; }

  int64_t CountRows() const override {
    int64_t rows = 0;
    for (absl::string_view rest = text_; !rest.empty();) {
      const std::vector<std::string> values = TakeRow(rest, delimiter_);
      rows += IsBlank(values) ? 0 : 1;
    }
    return rows;
  }

  absl::Status ForEach(absl::FunctionRef<bool(absl::StatusOr<FileRow> row)> on_row) const override {
    int64_t line = first_line_;
    for (absl::string_view rest = text_; !rest.empty();) {
      const absl::string_view before = rest;
      std::vector<std::string> values = TakeRow(rest, delimiter_);
      const absl::string_view taken = before.substr(0, before.size() - rest.size());
      const int64_t begins = line;
      line += std::count(taken.begin(), taken.end(), '\n');
      if (IsBlank(values)) continue;
      absl::StatusOr<JsonValue> row = Row(std::move(values), taken);
      const bool wants_more = row.ok() ? on_row(FileRow{begins, *std::move(row)})
                                       : on_row(Annotate(row.status(), absl::StrCat(path_, ":", begins)));
      if (!wants_more) break;
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<JsonValue> Row(std::vector<std::string> values, absl::string_view bytes) const {
    if (values.size() != columns_->names.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the row has ", values.size(), " values, but ", columns_->named_by, " ", columns_->names.size(),
          " columns; mend the row, or put values with '", std::string(1, delimiter_), "' in them in quotes"));
    }
    if (!IsValidUtf8(bytes)) {
      return absl::InvalidArgumentError(
          "the row is not valid UTF-8; convert the file (iconv -t UTF-8 -f ENCODING), or remove the row");
    }
    JsonValue row;
    row.kind = JsonValue::Kind::kObject;
    for (size_t i = 0; i < values.size(); ++i) {
      if (columns_->names[i].empty()) continue;
      JsonValue value;
      value.kind = JsonValue::Kind::kString;
      value.text = std::move(values[i]);
      row.members.emplace_back(columns_->names[i], std::move(value));
    }
    return row;
  }

  const std::string path_;
  const int64_t first_line_;
  const std::string text_;
  const char delimiter_;
  const std::shared_ptr<const CsvColumns> columns_;
};

class CsvRows : public RowReader {
 public:
  CsvRows(std::unique_ptr<ByteStream> bytes, std::string path, char delimiter)
      : bytes_(std::move(bytes)), path_(std::move(path)), delimiter_(delimiter) {}

  // Reads the first line, unless it is a row already.
  absl::Status ReadNames(const RowFileOptions& options) {
    while (row_ends_.empty() && !is_at_end_) DISTILL_RETURN_IF_ERROR(Fill());
    absl::string_view text = rest_;
    if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
    const bool are_given = !options.csv_names.empty();
    std::vector<std::string> names = are_given ? options.csv_names : TakeRow(text, delimiter_);
    DISTILL_RETURN_IF_ERROR(CheckNames(names, are_given ? "csv_columns" : "the first line", options.columns));
    Drop(rest_.size() - text.size());
    if (!options.columns.empty()) {
      for (std::string& name : names) {
        if (std::find(options.columns.begin(), options.columns.end(), name) == options.columns.end()) name.clear();
      }
    }
    columns_ = std::make_shared<const CsvColumns>(
        CsvColumns{std::move(names), are_given ? "csv_columns names" : "the first line names"});
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<RowChunk>> NextChunk() override {
    while (row_ends_.empty() && !is_at_end_) DISTILL_RETURN_IF_ERROR(Fill());
    const size_t end = row_ends_.empty() ? rest_.size() : row_ends_.back();
    if (end == 0) return nullptr;
    const int64_t first = line_;
    std::string text(rest_, 0, end);
    Drop(end);
    return std::make_unique<CsvChunk>(path_, first, std::move(text), delimiter_, columns_);
  }

  int64_t bytes_read() const override { return bytes_->bytes_read(); }

 private:
  absl::Status CheckNames(const std::vector<std::string>& names, const char* where,
                          const std::vector<std::string>& wanted) const {
    const std::set<std::string> distinct(names.begin(), names.end());
    if (distinct.count("") > 0 || distinct.size() < names.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ":1: ", where, " names the columns, each by a name of its own; it is '",
                       absl::StrJoin(names, std::string(1, delimiter_)).substr(0, 200), "'"));
    }
    for (const std::string& name : wanted) {
      if (distinct.count(name) > 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(path_, " has no column '", name, "'; it has ", absl::StrJoin(names, ", ")));
    }
    return absl::OkStatus();
  }

  // A chunk's bytes more, and where rows end in them.
  absl::Status Fill() {
    if (rest_.size() > kMaxLineBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ":", line_, ": this row has no end within 64 MiB: is a quote never closed?"));
    }
    const size_t before = rest_.size();
    rest_.resize(before + kStreamChunkBytes);
    absl::StatusOr<size_t> size = bytes_->Read(absl::MakeSpan(&rest_[before], kStreamChunkBytes));
    rest_.resize(before + (size.ok() ? *size : 0));
    if (!size.ok()) return Annotate(size.status(), absl::StrCat("reading failed in the row after line ", line_ - 1));
    is_at_end_ = *size == 0;
    for (size_t i = before; i < rest_.size(); ++i) {
      if (EndsRow(state_, rest_[i])) row_ends_.push_back(i + 1);
      state_ = After(state_, rest_[i], delimiter_);
    }
    return absl::OkStatus();
  }

  // The first bytes, which end with a row or with the file.
  void Drop(size_t size) {
    line_ += std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(size), '\n');
    rest_.erase(0, size);
    std::vector<size_t> left;
    for (const size_t end : row_ends_) {
      if (end > size) left.push_back(end - size);
    }
    row_ends_ = std::move(left);
  }

  const std::unique_ptr<ByteStream> bytes_;
  const std::string path_;
  const char delimiter_;
  std::shared_ptr<const CsvColumns> columns_;
  std::string rest_;                         // read, and not yet in a chunk
  std::vector<size_t> row_ends_;             // in it
  CsvState state_ = CsvState::kValueBegins;  // behind it
  bool is_at_end_ = false;
  int64_t line_ = 1;  // where it begins
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowReader>> OpenCsvRows(std::unique_ptr<ByteStream> bytes, std::string path,
                                                       char delimiter, const RowFileOptions& options) {
  auto rows = std::make_unique<CsvRows>(std::move(bytes), std::move(path), delimiter);
  DISTILL_RETURN_IF_ERROR(rows->ReadNames(options));
  return rows;
}

}  // namespace distill
