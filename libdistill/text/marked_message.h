// A message with a mark in place of what it says, so that a rendered conversation shows where that stands.
#pragma once

#include <optional>
#include <string>

#include "libdistill/text/conversation.h"

namespace distill {

bool CallsTools(const ChatMessage& message);

// The message with the mark in place of the content; with `of_call`, in place of the name of the first function that is
// called. nullopt: it calls none.
std::optional<ChatMessage> MarkAnswer(ChatMessage message, bool of_call);
// What follows the last mark of a text; nullopt: it has none.
std::optional<std::string> BehindMark(const std::string& text);

}  // namespace distill
