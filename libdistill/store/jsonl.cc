#include "libdistill/store/jsonl.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/json_value.h"

namespace distill {
namespace {

bool IsBlank(absl::string_view line) { return line.find_first_not_of(" \t\r") == absl::string_view::npos; }

absl::Status TooLong() { return absl::InvalidArgumentError("the line is longer than 64 MiB; shorten or remove it"); }

// Whole lines, the last one perhaps without its newline.
class JsonlChunk : public RowChunk {
 public:
  // `text` is followed by the parser's padding.
  JsonlChunk(std::string path, int64_t first_line, std::string text)
      : path_(std::move(path)), first_line_(first_line), text_(std::move(text)) {}

  int64_t first_row() const override { return first_line_; }

  absl::Status ForEach(absl::FunctionRef<bool(absl::StatusOr<FileRow> row)> on_row) const override {
    JsonParser parser;
    ForEachLine([&](int64_t number, absl::string_view line) {
      absl::StatusOr<JsonValue> value = line.size() > kMaxLineBytes ? TooLong() : parser.Parse(line);
      return value.ok() ? on_row(FileRow{number, *std::move(value)})
                        : on_row(Annotate(value.status(), absl::StrCat(path_, ":", number)));
    });
    return absl::OkStatus();
  }

  int64_t CountRows() const override {
    int64_t rows = 0;
    ForEachLine([&rows](int64_t, absl::string_view) {
      ++rows;
      return true;
    });
    return rows;
  }

 private:
  // Those that are not blank, until `on_line` returns false.
  void ForEachLine(absl::FunctionRef<bool(int64_t number, absl::string_view line)> on_line) const {
    absl::string_view rest = absl::string_view(text_).substr(0, text_.size() - JsonParser::kPadding);
    for (int64_t number = first_line_; !rest.empty(); ++number) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      absl::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (number == 1 && line.substr(0, 3) == "\xEF\xBB\xBF") line.remove_prefix(3);
      if (!IsBlank(line) && !on_line(number, line)) return;
    }
  }

  const std::string path_;
  const int64_t first_line_;
  const std::string text_;
};

// In place of a line that is too long to be kept.
class TooLongLine : public RowChunk {
 public:
  TooLongLine(std::string path, int64_t line) : path_(std::move(path)), line_(line) {}
  int64_t first_row() const override { return line_; }
  absl::Status ForEach(absl::FunctionRef<bool(absl::StatusOr<FileRow> row)> on_row) const override {
    on_row(Annotate(TooLong(), absl::StrCat(path_, ":", line_)));
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const int64_t line_;
};

class JsonlRows : public RowReader {
 public:
  JsonlRows(std::unique_ptr<ByteStream> bytes, std::string path) : bytes_(std::move(bytes)), path_(std::move(path)) {}

  absl::StatusOr<std::unique_ptr<RowChunk>> NextChunk() override {
    for (;;) {
      const size_t before = rest_.size();  // without a newline among them
      DISTILL_ASSIGN_OR_RETURN(const bool is_at_end, Fill());
      const size_t newline = absl::string_view(rest_).substr(before).rfind('\n');
      if (newline != absl::string_view::npos) return Cut(before + newline + 1);
      if (rest_.size() > kMaxLineBytes) return SkipLine();
      if (is_at_end) return rest_.empty() ? nullptr : Cut(rest_.size());
    }
  }

  int64_t bytes_read() const override { return bytes_->bytes_read(); }

 private:
  // A chunk's bytes more; whether the stream is at its end.
  absl::StatusOr<bool> Fill() {
    const size_t before = rest_.size();
    rest_.resize(before + kStreamChunkBytes);
    absl::StatusOr<size_t> size = bytes_->Read(absl::MakeSpan(&rest_[before], kStreamChunkBytes));
    rest_.resize(before + (size.ok() ? *size : 0));
    if (size.ok()) return *size == 0;
    return Annotate(size.status(), absl::StrCat("reading failed in the line after line ", line_ - 1));
  }

  std::unique_ptr<RowChunk> Cut(size_t size) {
    std::string text(rest_, 0, size);
    rest_.erase(0, size);
    const int64_t first = line_;
    line_ += std::count(text.begin(), text.end(), '\n');
    text.resize(size + JsonParser::kPadding);
    return std::make_unique<JsonlChunk>(path_, first, std::move(text));
  }

  // Up to the newline that ends it, or to the end of the file.
  absl::StatusOr<std::unique_ptr<RowChunk>> SkipLine() {
    size_t newline = std::string::npos;
    for (bool is_at_end = false; !is_at_end && newline == std::string::npos; newline = rest_.find('\n')) {
      rest_.clear();
      DISTILL_ASSIGN_OR_RETURN(is_at_end, Fill());
    }
    rest_.erase(0, newline == std::string::npos ? rest_.size() : newline + 1);
    // What follows may hold more newlines, and the next chunk is cut at the last one of what it reads anew.
    return std::make_unique<TooLongLine>(path_, line_++);
  }

  const std::unique_ptr<ByteStream> bytes_;
  const std::string path_;
  std::string rest_;  // read, and not yet in a chunk
  int64_t line_ = 1;  // where it begins
};

}  // namespace

std::unique_ptr<RowReader> OpenJsonlRows(std::unique_ptr<ByteStream> bytes, std::string path) {
  return std::make_unique<JsonlRows>(std::move(bytes), std::move(path));
}

}  // namespace distill
