// What became of the rows of a chat data set, for its summary. It can be written down and read again, so that who is
// interrupted among the rows resumes there.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/data/answer_notes.h"
#include "libdistill/data/rows.h"

namespace distill {

struct ChatCounts {
  int64_t rows = 0;  // without bad ones
  int64_t used = 0;
  int64_t cut = 0;
  CountedRows cut_before_answer = {};
  AnswerNotes notes = {};
  std::set<std::string> unread = {};  // fields that nothing reads

  // "rows 20000, used 19998, cut before the answer 2 (first: train.jsonl:17)".
  std::string Describe(int64_t max_length) const;
};

// How far the rows of a data set were read, and what became of them.
struct ChatProgress {
  RowsRead rows = {};
  ChatCounts counts = {};
};

std::string ToJson(const ChatProgress& progress);
// DataLoss: the text is no such progress.
[[nodiscard]] absl::StatusOr<ChatProgress> ChatProgressOf(absl::string_view json);

}  // namespace distill
