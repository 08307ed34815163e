#include "libdistill/data/answer_notes.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace distill {
namespace {

// What the assistant thought before its answer: in a field of its own, or in front of </think>.
std::string ReasoningOf(const ChatMessage& message) {
  for (const auto& [name, value] : message.fields) {
    if (name == "reasoning_content" || name == "reasoning" || name == "thinking") return value.text;
  }
  const size_t end = message.content.find("</think>");
  if (end == std::string::npos) return "";
  const absl::string_view thought = absl::StripAsciiWhitespace(absl::string_view(message.content).substr(0, end));
  return std::string(absl::StripPrefix(thought, "<think>"));
}

bool LeavesOutReasoning(const std::string& text, const std::vector<ChatMessage>& messages) {
  return std::any_of(messages.begin(), messages.end(), [&](const ChatMessage& message) {
    return message.role == "assistant" && message.has_loss &&
           !absl::StrContains(text, absl::StripAsciiWhitespace(ReasoningOf(message)));
  });
}

}  // namespace

AnswerNote NoteOf(const ChatTemplate::Rendered& rendered, const std::vector<ChatMessage>& messages) {
  return {.is_rewritten = rendered.rewritten > 0,
          .is_without_reasoning = LeavesOutReasoning(rendered.text, messages),
          .is_without_end = rendered.without_end > 0,
          .added_end = rendered.added_end};
}

void AnswerNotes::Add(const AnswerNote& note, const std::string& place) {
  if (note.is_rewritten) rewritten.Add(place);
  if (note.is_without_reasoning) without_reasoning.Add(place);
  if (note.is_without_end) without_end.Add(place);
  if (note.added_end.empty()) return;
  with_added_end.Add(place);
  added_end = note.added_end;
}

std::string AnswerNotes::Describe() const {
  return absl::StrCat(
      rewritten.Describe("with answers that are context alone, since the chat template leaves them or their "
                         "reasoning out of what follows"),
      without_reasoning.Describe("with reasoning that the chat template leaves out"),
      with_added_end.Describe(absl::StrCat("with ", added_end,
                                           " behind the last answer, as the chat template ends turns within a "
                                           "conversation")),
      without_end.Describe("with answers that the chat template does not end: the student will not learn to stop"));
}

}  // namespace distill
