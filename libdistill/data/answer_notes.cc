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

void AnswerNotes::Add(const ChatTemplate::Rendered& rendered, const std::vector<ChatMessage>& messages,
                      const std::string& place) {
  if (rendered.rewritten > 0) rewritten_.Add(place);
  if (LeavesOutReasoning(rendered.text, messages)) without_reasoning_.Add(place);
  if (rendered.without_end > 0) without_end_.Add(place);
  if (rendered.added_end.empty()) return;
  with_added_end_.Add(place);
  added_end_ = rendered.added_end;
}

std::string AnswerNotes::Describe() const {
  return absl::StrCat(
      rewritten_.Describe("with answers that are context alone, since the chat template leaves them or their "
                          "reasoning out of what follows"),
      without_reasoning_.Describe("with reasoning that the chat template leaves out"),
      with_added_end_.Describe(absl::StrCat("with ", added_end_,
                                            " behind the last answer, as the chat template ends turns within a "
                                            "conversation")),
      without_end_.Describe("with answers that the chat template does not end: the student will not learn to stop"));
}

}  // namespace distill
