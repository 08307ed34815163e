#include "libdistill/data/rows.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <future>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/bad_row_list.h"
#include "libdistill/data/column_names.h"
#include "libdistill/data/row_files.h"
#include "libdistill/data/row_progress.h"
#include "libdistill/store/files.h"
#include "libdistill/store/readable_file.h"

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

using Encode = std::function<absl::StatusOr<MadeOfRow>(JsonValue& row)>;
using Take = absl::FunctionRef<absl::StatusOr<bool>(const MadeOfRow& made, const std::string& place)>;

struct EncodedRow {
  int64_t number = 0;  // 0: of a row that cannot be parsed, whose error says where
  absl::StatusOr<MadeOfRow> made;
};

struct EncodedChunk {
  std::string file;
  std::vector<EncodedRow> rows;
  absl::Status status;  // of the chunk as a whole
  int64_t bytes = 0;    // of all files, up to its end
};

EncodedChunk EncodeChunk(std::string file, const RowChunk& chunk, const ColumnNames& columns, const Encode& encode,
                         int64_t bytes) {
  EncodedChunk encoded{std::move(file), {}, absl::OkStatus(), bytes};
  encoded.status = chunk.ForEach([&](absl::StatusOr<FileRow> row) {
    if (!row.ok()) {
      encoded.rows.push_back({0, row.status()});
    } else if (const absl::Status renamed = columns.Rename(row->value); !renamed.ok()) {
      encoded.rows.push_back({row->number, renamed});
    } else {
      encoded.rows.push_back({row->number, encode(row->value)});
    }
    return true;
  });
  return encoded;
}

// What becomes of the rows, one after the other.
class RowLoop {
 public:
  RowLoop(const std::string& path, int64_t bytes, const RowOptions& options, Take take, const ResumeRows& resume)
      : bad_(path, options, resume.from.bad),
        progress_(BaseName(path), bytes),
        take_(take),
        on_chunk_(resume.on_chunk),
        rows_(resume.from.rows),
        chunks_(resume.from.chunks) {}

  // False: no more rows are wanted, or an error ended it.
  bool Add(EncodedChunk chunk) {
    for (const EncodedRow& row : chunk.rows) {
      if (!Add(chunk, row)) return false;
    }
    ++chunks_;
    error_ = chunk.status;
    if (error_.ok() && on_chunk_) error_ = on_chunk_({chunks_, rows_, bad_.so_far()});
    return error_.ok();
  }
  bool Fail(const absl::Status& error) {
    error_ = error;
    return false;
  }

  absl::Status Finish() const { return error_.ok() ? bad_.Finish(rows_) : error_; }

 private:
  bool Add(const EncodedChunk& chunk, const EncodedRow& row) {
    const std::string number = absl::StrCat(":", row.number);
    absl::StatusOr<bool> wants_more = true;
    if (row.made.ok()) {
      wants_more = take_(*row.made, absl::StrCat(BaseName(chunk.file), number));
    } else {
      wants_more = row.made.status();
    }
    if (!wants_more.ok() && row.number > 0) {
      wants_more = Annotate(wants_more.status(), absl::StrCat(chunk.file, number));
    }
    progress_.Tell(++rows_, chunk.bytes);
    if (wants_more.ok()) return *wants_more;
    if (!absl::IsInvalidArgument(wants_more.status())) return Fail(wants_more.status());
    bad_.Add(wants_more.status());
    return !bad_.is_full();
  }

  BadRowList bad_;
  RowProgress progress_;
  Take take_;
  const std::function<absl::Status(const RowsRead&)> on_chunk_;
  int64_t rows_;
  int64_t chunks_;
  absl::Status error_;
};

// Chunks that are being encoded, in order; at most `threads` of them.
class ChunksAhead {
 public:
  ChunksAhead(int64_t threads, RowLoop& loop)
      : threads_(static_cast<size_t>(std::max<int64_t>(1, threads))), loop_(loop) {}

  // As RowLoop's.
  bool Add(std::function<EncodedChunk()> encode) {
    if (ahead_.size() == threads_ && !AddOldest()) return false;
    const auto policy = threads_ == 1 ? std::launch::deferred : std::launch::async;
    try {
      ahead_.push_back(std::async(policy, encode));
    } catch (const std::system_error&) {  // no thread is to be had
      ahead_.push_back(std::async(std::launch::deferred, encode));
    }
    return true;
  }
  bool AddAll() {
    while (!ahead_.empty()) {
      if (!AddOldest()) return false;
    }
    return true;
  }

 private:
  bool AddOldest() {
    EncodedChunk chunk = ahead_.front().get();
    ahead_.pop_front();
    return loop_.Add(std::move(chunk));
  }

  const size_t threads_;
  RowLoop& loop_;
  std::deque<std::future<EncodedChunk>> ahead_;  // whose destructors wait
};

}  // namespace

RowFileOptions FileOptionsOf(const RowOptions& options) {
  RowFileOptions files;
  for (const absl::string_view name : absl::StrSplit(options.csv_columns, ',', absl::SkipWhitespace())) {
    files.csv_names.emplace_back(absl::StripAsciiWhitespace(name));
  }
  return files;
}

absl::Status ForEachEncodedRow(const std::string& path, const std::string& split, const RowOptions& options,
                               int64_t threads, const Encode& encode, Take take, const ResumeRows& resume) {
  DISTILL_ASSIGN_OR_RETURN(const ColumnNames columns, ColumnNames::Parse(options.columns));
  const RowFileOptions file_options = FileOptionsOf(options);
  DISTILL_ASSIGN_OR_RETURN(const auto files, OpenRowFiles(path, split));
  RowLoop loop(path, BytesOf(files), options, take, resume);
  ChunksAhead ahead(threads, loop);
  bool wants_more = true;
  int64_t bytes = 0;  // of the files before this one
  int64_t to_skip = resume.from.chunks;
  for (auto file = files.begin(); wants_more && file != files.end(); ++file) {
    const absl::StatusOr<std::unique_ptr<RowReader>> opened = OpenRows(*file, file_options);
    if (!opened.ok()) {
      wants_more = ahead.AddAll() && loop.Fail(opened.status());
      break;
    }
    RowReader* const rows = opened->get();
    while (wants_more) {
      absl::StatusOr<std::unique_ptr<RowChunk>> chunk = rows->NextChunk();
      if (!chunk.ok()) {  // what came before it is taken first, as without threads
        wants_more = ahead.AddAll() && loop.Fail(chunk.status());
      } else if (*chunk == nullptr) {
        break;
      } else if (to_skip > 0) {
        --to_skip;
      } else {
        wants_more =
            ahead.Add([name = (*file)->path(), chunk = std::shared_ptr<RowChunk>(*std::move(chunk)), &columns, &encode,
                       at = bytes + rows->bytes_read()] { return EncodeChunk(name, *chunk, columns, encode, at); });
      }
    }
    bytes += (*file)->size();
  }
  if (wants_more) ahead.AddAll();
  return loop.Finish();
}

absl::Status ForEachRow(
    const std::string& path, const std::string& split, const RowOptions& options,
    absl::FunctionRef<absl::StatusOr<bool>(const JsonValue& row, const std::string& place)> on_row) {
  const auto keep = [](JsonValue& row) -> absl::StatusOr<MadeOfRow> {
    return std::make_shared<JsonValue>(std::move(row));
  };
  return ForEachEncodedRow(path, split, options, /*threads=*/1, keep,
                           [&](const MadeOfRow& made, const std::string& place) {
                             return on_row(*static_cast<const JsonValue*>(made.get()), place);
                           });
}

absl::Status CheckRowFiles(const std::string& path, const std::string& split, const RowOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, FindRowFiles(path, split));
  for (const std::string& name : names) {
    if (IsPipe(name)) continue;  // its rows can be read once
    DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const ReadableFile> file, OpenFile(name));
    DISTILL_RETURN_IF_ERROR(OpenRows(file, FileOptionsOf(options)).status());
  }
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
