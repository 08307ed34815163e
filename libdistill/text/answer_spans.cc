#include "libdistill/text/answer_spans.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/text/marked_message.h"

namespace distill {
namespace {

size_t CommonPrefix(absl::string_view a, absl::string_view b) {
  return std::mismatch(a.begin(), a.begin() + std::min(a.size(), b.size()), b.begin()).first - a.begin();
}

size_t CommonSuffix(absl::string_view a, absl::string_view b) {
  return std::mismatch(a.rbegin(), a.rbegin() + std::min(a.size(), b.size()), b.rbegin()).first - a.rbegin();
}

Conversation UpTo(const Conversation& conversation, size_t count) {
  Conversation first{{}, conversation.fields};
  first.messages.assign(conversation.messages.begin(), conversation.messages.begin() + count);
  return first;
}

// What one message makes of a text: the part that differs with it, and where the turn around it begins.
struct Place {
  size_t begin = 0;  // of the turn: the end of the generation prompt
  size_t end = 0;    // of the content
  std::string text;  // between them
  std::string tail;  // behind the content, of the rendering with the mark
  bool is_found = false;
};

class AnswerFinder {
 public:
  AnswerFinder(const Conversation& conversation, const Tokenizer& tokenizer, RenderConversation render)
      : conversation_(conversation), tokenizer_(tokenizer), render_(render) {}

  absl::StatusOr<AnswerSpan> Find(const std::string& whole, size_t message, size_t from) const {
    DISTILL_ASSIGN_OR_RETURN(const Prompt prompt, PromptBefore(message, whole));
    DISTILL_ASSIGN_OR_RETURN(const Place place, Locate(conversation_, whole, message, prompt, from));
    AnswerSpan span{.message = message, .begin = place.begin, .end = place.end, .is_rewritten = !place.is_found};
    if (!place.is_found) return span;
    std::string elsewhere;  // what follows the content elsewhere
    const bool is_last = message + 1 == conversation_.messages.size();
    if (is_last) {
      elsewhere = TailWithin(message, place.tail);
    } else {
      DISTILL_ASSIGN_OR_RETURN(const Place at_end, LocateAtEnd(whole, message, prompt, place));
      span.is_rewritten = at_end.text != absl::string_view(whole).substr(place.begin, place.end - place.begin);
      elsewhere = at_end.tail;
    }
    DISTILL_ASSIGN_OR_RETURN(const Ending ending, EndOfTurn(place.tail, elsewhere));
    span.end += ending.size;
    span.has_end = ending.size > 0;
    if (is_last && !ending.is_special) {
      const absl::string_view behind = absl::string_view(elsewhere).substr(std::min(ending.size, elsewhere.size()));
      DISTILL_ASSIGN_OR_RETURN(const size_t token, FirstSpecial(behind));
      span.end_elsewhere = std::string(absl::StripLeadingAsciiWhitespace(behind.substr(0, token)));
    }
    return span;
  }

 private:
  // The text up to a message with the generation prompt, and that prompt alone where the whole text is another one.
  struct Prompt {
    std::string text;
    std::vector<std::string> added;  // it, and what of it ends with a line or a special token; longest first
  };

  absl::StatusOr<Prompt> PromptBefore(size_t message, const std::string& whole) const {
    const Conversation before = UpTo(conversation_, message);
    absl::StatusOr<std::string> asked = render_(before, true);
    if (message == 0 && !asked.ok()) return Prompt{};  // most templates look at the first message
    DISTILL_RETURN_IF_ERROR(asked.status());
    if (absl::StartsWith(whole, *asked)) return Prompt{*std::move(asked), {}};
    absl::StatusOr<std::string> silent = render_(before, false);
    if (message == 0 && !silent.ok()) return Prompt{};
    DISTILL_RETURN_IF_ERROR(silent.status());
    DISTILL_ASSIGN_OR_RETURN(auto added, Beginnings(asked->substr(CommonPrefix(*asked, *silent))));
    return Prompt{*std::move(asked), std::move(added)};
  }

  absl::StatusOr<std::vector<std::string>> Beginnings(const std::string& prompt) const {
    DISTILL_ASSIGN_OR_RETURN(const Encoding encoding, Encode(prompt));
    std::set<size_t, std::greater<>> ends = {prompt.size()};
    for (int64_t i = 0; i < encoding.size(); ++i) {
      if (tokenizer_.IsSpecial(encoding.ids[i])) ends.insert(encoding.offsets[i].second);
    }
    for (size_t at = prompt.find('\n'); at != std::string::npos; at = prompt.find('\n', at + 1)) ends.insert(at + 1);
    std::vector<std::string> beginnings;
    for (const size_t end : ends) {
      if (!absl::StripAsciiWhitespace(prompt.substr(0, end)).empty()) beginnings.push_back(prompt.substr(0, end));
    }
    return beginnings;
  }

  absl::StatusOr<Place> Locate(const Conversation& conversation, const std::string& whole, size_t message,
                               const Prompt& prompt, size_t from) const {
    DISTILL_ASSIGN_OR_RETURN(const std::string marked, RenderMarked(conversation, message));
    std::optional<std::string> tail = BehindMark(marked);
    Place place;
    if (!tail) return place;
    place.is_found = true;
    place.tail = *std::move(tail);
    const size_t differs = CommonPrefix(whole, marked);
    place.end = whole.size() - std::min(CommonSuffix(whole, place.tail), whole.size() - differs);
    const bool is_prompted = absl::StartsWith(whole, prompt.text) && prompt.text.size() <= place.end;
    place.begin = is_prompted && !prompt.text.empty()
                      ? prompt.text.size()
                      : BehindPrompt(absl::string_view(whole).substr(0, differs), prompt.added,
                                     BehindQuestion(whole, message, from));
    place.text = whole.substr(place.begin, place.end - place.begin);
    return place;
  }

  // The same message where the conversation ends with it.
  absl::StatusOr<Place> LocateAtEnd(const std::string& whole, size_t message, const Prompt& prompt,
                                    const Place& within) const {
    const Conversation first = UpTo(conversation_, message + 1);
    DISTILL_ASSIGN_OR_RETURN(const std::string alone, render_(first, false));
    if (CommonPrefix(alone, whole) < within.end) return Locate(first, alone, message, prompt, 0);
    return Place{within.begin, within.end, within.text, alone.substr(within.end), true};
  }

  // With the mark in place of the content; in place of a call where the template leaves out the content beside it.
  // Without any mark where it leaves out both.
  absl::StatusOr<std::string> RenderMarked(Conversation conversation, size_t message) const {
    const ChatMessage original = conversation.messages[message];
    std::string marked;
    for (const bool of_call : {false, true}) {
      std::optional<ChatMessage> with_mark = MarkAnswer(original, of_call);
      if (!with_mark) break;
      if (!of_call && absl::StripAsciiWhitespace(original.content).empty() && CallsTools(original)) continue;
      conversation.messages[message] = *std::move(with_mark);
      DISTILL_ASSIGN_OR_RETURN(marked, render_(conversation, false));
      if (BehindMark(marked)) break;
    }
    return marked;
  }

  // Not before the end of the message before; it may stand further back, where its words are those of another one.
  size_t BehindQuestion(absl::string_view whole, size_t message, size_t from) const {
    if (message == 0) return from;
    const absl::string_view question = absl::StripAsciiWhitespace(conversation_.messages[message - 1].content);
    const size_t at = whole.find(question, from);
    return at == absl::string_view::npos ? from : at + question.size();
  }

  // Where the last generation prompt of `text` ends, behind `from`, or what of it stands there: models are asked by
  // "<|assistant|><think>", and answers without a thought follow "<|assistant|>". Else where the text ends.
  static size_t BehindPrompt(absl::string_view text, const std::vector<std::string>& prompts, size_t from) {
    for (const std::string& prompt : prompts) {
      const size_t at = text.rfind(prompt);
      if (at != absl::string_view::npos && at >= from) return at + prompt.size();
    }
    return text.size();
  }

  // What follows the content of the last message where another one does: an answer of a tool, or a question. The tail
  // itself where the template refuses.
  std::string TailWithin(size_t message, const std::string& tail) const {
    for (const char* role : {"tool", "user"}) {
      if (role == std::string("tool") && !CallsTools(conversation_.messages[message])) continue;
      Conversation longer = conversation_;
      longer.messages.push_back({role, "?"});
      const absl::StatusOr<std::string> text = RenderMarked(std::move(longer), message);
      std::optional<std::string> within = text.ok() ? BehindMark(*text) : std::nullopt;
      if (within && *within != tail) return *std::move(within);
    }
    return tail;
  }

  struct Ending {
    size_t size = 0;
    bool is_special = false;  // it ends with a special token
  };

  // What of `tail` ends the turn: what both tails begin with, in whole special tokens, without white space behind it;
  // and the special token behind it where it does not end with one.
  absl::StatusOr<Ending> EndOfTurn(absl::string_view tail, absl::string_view elsewhere) const {
    size_t common = CommonPrefix(tail, elsewhere);
    DISTILL_ASSIGN_OR_RETURN(const Encoding encoding, Encode(tail.substr(0, common + kLongestToken)));
    size_t special = 0;  // where the last one ends
    for (int64_t i = 0; i < encoding.size(); ++i) {
      const auto begin = static_cast<size_t>(encoding.offsets[i].first),
                 end = static_cast<size_t>(encoding.offsets[i].second);
      if (begin >= common || !tokenizer_.IsSpecial(encoding.ids[i])) continue;
      if (end > common) {
        common = begin;
      } else {
        special = end;
      }
    }
    const size_t size = absl::StripTrailingAsciiWhitespace(tail.substr(0, common)).size();
    if (size > 0 && size == special) return Ending{size, true};
    DISTILL_ASSIGN_OR_RETURN(const size_t next, FirstSpecial(tail.substr(size)));
    return Ending{size + next, next > 0};
  }

  // The end of the special token that `text` begins with, behind white space; 0 where there is none. BOS begins texts,
  // and ends none.
  absl::StatusOr<size_t> FirstSpecial(absl::string_view text) const {
    const size_t begin = text.size() - absl::StripLeadingAsciiWhitespace(text).size();
    DISTILL_ASSIGN_OR_RETURN(const Encoding encoding, Encode(text.substr(begin, kLongestToken)));
    if (encoding.size() == 0 || !tokenizer_.IsSpecial(encoding.ids[0])) return 0;
    const size_t size = static_cast<size_t>(encoding.offsets[0].second);
    return text.substr(begin, size) == tokenizer_.bos_token() ? 0 : begin + size;
  }

  absl::StatusOr<Encoding> Encode(absl::string_view text) const {
    return tokenizer_.EncodeInput(text, {.add_special_tokens = false});
  }

  static constexpr size_t kLongestToken = 256;

  const Conversation& conversation_;
  const Tokenizer& tokenizer_;
  const RenderConversation render_;
};

}  // namespace

absl::StatusOr<std::vector<AnswerSpan>> FindAnswers(const Conversation& conversation, const std::string& whole,
                                                    const Tokenizer& tokenizer, RenderConversation render) {
  const AnswerFinder finder(conversation, tokenizer, render);
  std::vector<AnswerSpan> spans;
  size_t from = 0;
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    if (conversation.messages[i].role != "assistant") continue;
    DISTILL_ASSIGN_OR_RETURN(const AnswerSpan span, finder.Find(whole, i, from));
    spans.push_back(span);
    if (!span.is_rewritten) from = span.end;
  }
  return spans;
}

}  // namespace distill
