// What data sets out of files of rows have in common: the rows of the files that a path stands for, and their fields.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/data/bad_row_list.h"
#include "libdistill/data/row_options.h"
#include "libdistill/store/json_value.h"
#include "libdistill/store/row_reader.h"

namespace distill {

// Hands over the rows of the files that FindRowFiles (row_files.h) finds, in their order, until `on_row` returns false,
// with their columns renamed as options.columns say. `place` is "train.jsonl:17". A row is bad where it cannot be
// parsed, or where `on_row` returns InvalidArgument, which must then have kept nothing of it; what becomes of them
// `options` say, after the last row. Other errors of `on_row` end it. NotFound: no such file. InvalidArgument: bad rows
// that are not left out (BadRowList); a format that is not read. DataLoss: a damaged file.
[[nodiscard]] absl::Status ForEachRow(
    const std::string& path, const std::string& split, const RowOptions& options,
    absl::FunctionRef<absl::StatusOr<bool>(const JsonValue& row, const std::string& place)> on_row);

// The same on `threads` threads: `encode` is called on any of them, several at a time, may take the row apart, and
// makes what `take` is given, row after row in the files' order, on this thread. Whatever the number of threads, `take`
// sees the same rows, and errors are the same: those of `encode` are as those of `on_row`. Rows after the last one that
// `take` wants may have been encoded.
//
// It begins behind what `resume.from` says was read before. `resume.on_chunk` is told how far the rows were taken, on
// this thread, whenever it could begin anew there; its errors end it.
using MadeOfRow = std::shared_ptr<void>;
struct RowsRead {
  int64_t chunks = 0;  // of all files (store/row_reader.h)
  int64_t rows = 0;    // bad ones among them
  BadRowCount bad = {};
};
struct ResumeRows {
  RowsRead from = {};
  std::function<absl::Status(const RowsRead& so_far)> on_chunk = {};
};
[[nodiscard]] absl::Status ForEachEncodedRow(
    const std::string& path, const std::string& split, const RowOptions& options, int64_t threads,
    const std::function<absl::StatusOr<MadeOfRow>(JsonValue& row)>& encode,
    absl::FunctionRef<absl::StatusOr<bool>(const MadeOfRow& made, const std::string& place)> take,
    const ResumeRows& resume = {});

// The errors that ForEachRow would give for the files themselves; reads no row, and nothing of a pipe.
[[nodiscard]] absl::Status CheckRowFiles(const std::string& path, const std::string& split,
                                         const RowOptions& options = {});

// How the files themselves are read, as `options` say.
RowFileOptions FileOptionsOf(const RowOptions& options);

// A member of a row that is an object. InvalidArgument: it is missing, or of another kind.
[[nodiscard]] absl::StatusOr<const JsonValue*> FieldOf(const JsonValue& row, const std::string& name);
[[nodiscard]] absl::StatusOr<std::string> TextOf(const JsonValue& row, const std::string& name);
// A whole number from 0. InvalidArgument: anything else; `what` is what it is called.
[[nodiscard]] absl::StatusOr<int64_t> WholeNumberOf(const JsonValue& value, const std::string& what);

// Rows that have one thing in common, and where the first of them are.
struct CountedRows {
  int64_t count = 0;
  std::vector<std::string> places = {};

  void Add(const std::string& place);
  // ", REASON 2 (first: train.jsonl:17, train.jsonl:20)"; "" where there is none.
  std::string Describe(absl::string_view reason) const;
};

// InvalidArgument: max_length below `least`, or num_samples below 0.
[[nodiscard]] absl::Status CheckLimits(int64_t max_length, int64_t least, int64_t num_samples);

}  // namespace distill
