// Questions whose answers are parts of a context (SQuAD), out of SQuAD's own files or out of rows (docs/formats.md,
// "Questions"):
//
//   {"id": "a1", "question": "...", "context": "...", "answers": {"text": ["..."], "answer_start": [17]}}
//
//   DISTILL_ASSIGN_OR_RETURN(auto data, LoadSpanDataset("train-v1.1.json", tokenizer, {}));
//   const SpanRow& row = data.rows[sample_row];                     // what a prediction is compared with
//   const std::string answer = row.context.substr(begin, end - begin);  // of the offsets of the tokens it begins and
//   ends with
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/dataset.h"
#include "libdistill/data/row_options.h"
#include "libdistill/data/span_windows.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

struct SpanDatasetOptions {
  std::string split = "";   // of a folder: "train" takes train*.jsonl; empty takes every *.jsonl
  int64_t num_samples = 0;  // rows to take; 0: all
  WindowOptions windows = {};
  RowOptions rows = {};  // what to do about bad ones
};

struct SpanRow {
  std::string id;  // the row's, or its place ("squad.jsonl:17") where it has none
  std::string question, context;
  std::vector<std::string> answers;  // none: the context does not answer it
};

struct SpanDataset {
  // In memory, one sample a window; a context that does not fit has several. Their length is T.
  //   "ids", "token_types"   int32 [T]     as the tokenizer makes them of question and context
  //   "offsets"              int64 [T, 2]  bytes of the context that a token is made of; -1, -1 outside of it
  //   "start", "end"         int64 []      the first answer's first and last token in this window, or PlaceOfNoAnswer
  //   "row"                  int64 []      into `rows`
  std::shared_ptr<Dataset> windows;
  std::vector<SpanRow> rows;
  std::string summary;  // "rows 1000, windows 1180, without an answer 3 (first: ...)"
};

// `path`: a file of rows, a folder of them, or one of SQuAD's .json files. Bad rows: broken JSON, bad UTF-8, a missing
// field, an answer that does not stand in the context at its character, a question that leaves no room for the context,
// a text that the tokenizer refuses. InvalidArgument: bad rows that are not left out (how many, the first ones with
// file, line and reason); no rows; options out of range. NotFound: no such file.
[[nodiscard]] absl::StatusOr<SpanDataset> LoadSpanDataset(const std::string& path, const Tokenizer& tokenizer,
                                                          const SpanDatasetOptions& options);

}  // namespace distill
