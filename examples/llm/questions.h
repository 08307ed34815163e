// What is asked: conversations that a model is to continue.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/row_options.h"
#include "libdistill/store/json_value.h"
#include "libdistill/text/conversation.h"

namespace distill {

Conversation QuestionOf(const std::string& prompt);

// One a row, in the files' order. Rows are chat rows (docs/formats.md), or have the question alone ('prompt',
// 'question' or 'instruction'); an answer that stands at a conversation's end is left out, to be given anew. Fails as
// ForEachRow (data/rows.h) does.
[[nodiscard]] absl::StatusOr<std::vector<Conversation>> ReadQuestions(const std::string& path,
                                                                      const RowOptions& options);

// The chat row of a question and its answer, with "finish_reason" ("stop" or "length") and "tokens".
JsonValue AnsweredRow(const Conversation& question, const std::string& answer, bool has_ended, int64_t tokens);

}  // namespace distill
