// SQuAD's own files (docs/formats.md, "Questions"): one JSON object with articles, their paragraphs, and the questions
// about each. The same object around rows is read too, as run_qa.py of transformers reads it.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "libdistill/data/row_options.h"
#include "libdistill/store/json_value.h"

namespace distill {

// Whether a name ends as theirs do.
bool IsSquadFileName(const std::string& path);

// As ForEachRow (rows.h), of a file of any store, which is read whole: each question as the row that data sets of the
// hub have of it (id, title, context, question, answers of two lists). `place` is "dev-v2.0.json: article 1, paragraph
// 2, question 3". An article or a paragraph that is none of SQuAD's is one bad row. InvalidArgument besides: the file
// holds no such object; `options` rename columns.
[[nodiscard]] absl::Status ForEachSquadRow(
    const std::string& path, const RowOptions& options,
    absl::FunctionRef<absl::StatusOr<bool>(const JsonValue& row, const std::string& place)> on_row);

}  // namespace distill
