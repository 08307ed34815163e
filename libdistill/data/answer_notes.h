// What a chat template does to answers that users should know of, counted over the rows of a data set.
#pragma once

#include <string>
#include <vector>

#include "libdistill/data/rows.h"
#include "libdistill/text/chat_template.h"

namespace distill {

// What it does to the answers of one row.
struct AnswerNote {
  bool is_rewritten = false;
  bool is_without_reasoning = false;
  bool is_without_end = false;
  std::string added_end;  // empty: none
};

// Any thread.
AnswerNote NoteOf(const ChatTemplate::Rendered& rendered, const std::vector<ChatMessage>& messages);

struct AnswerNotes {
  void Add(const AnswerNote& note, const std::string& place);
  // ", with reasoning that the chat template leaves out 2 (first: train.jsonl:17, ...)"; "" where there is nothing.
  std::string Describe() const;

  CountedRows rewritten = {};
  CountedRows without_reasoning = {};
  CountedRows with_added_end = {};
  CountedRows without_end = {};
  std::string added_end = {};
};

}  // namespace distill
