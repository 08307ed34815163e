#include "libdistill/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/regex_syntax.h"

namespace distill {
namespace {

constexpr size_t kShownOfText = 40, kShownOfPattern = 300;  // in messages
constexpr uint32_t kMaxParentheses = 1000;  // the translation is the bound, and adds some to those of the pattern

// Two optimizations of PCRE2 (10.42) lose matches, and are left out where they can:
// - A count before an atomic group that may match nothing keeps what it has: H?(?>a?)\b does not match before "Hello".
// - With its JIT, the search for a place to begin misses the last characters of a text where alternatives have
//   different lengths: (?:ab|a)c*b does not match "ab". Patterns with alternatives match nearly everywhere, so that
//   they do not need it.
uint32_t OptionsFor(const std::string& pattern) {
  uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  for (const absl::string_view atomic : {"(?>", ")?+", ")*+", ")++", "}+"}) {
    if (absl::StrContains(pattern, atomic)) options |= PCRE2_NO_AUTO_POSSESS;
  }
  return absl::StrContains(pattern, '|') ? options | PCRE2_NO_START_OPTIMIZE : options;
}

std::string ErrorText(int error) {
  PCRE2_UCHAR message[256] = {};
  pcre2_get_error_message(error, message, sizeof(message));
  return reinterpret_cast<const char*>(message);
}

// The beginning of a text for a message: whole code points, without line breaks.
std::string Excerpt(absl::string_view text, size_t shown_bytes) {
  size_t end = 0;
  while (end < text.size() && end < shown_bytes) NextCodePoint(text, &end);
  return absl::StrCat("'", absl::StrReplaceAll(text.substr(0, end), {{"\n", "\\n"}, {"\r", "\\r"}}),
                      end < text.size() ? "..." : "", "'");
}

}  // namespace

struct Regex::Impl {
  std::string pattern;
  pcre2_code* code = nullptr;  // nullptr: the pattern is a text
  uint32_t may_be_empty = 0;   // a match
  ~Impl() { pcre2_code_free(code); }
};

absl::StatusOr<Regex> Regex::Compile(const std::string& pattern) {
  if (pattern.size() > 65536) return absl::InvalidArgumentError("the pattern is longer than 65536 bytes");
  if (!IsValidUtf8(pattern)) return absl::InvalidArgumentError("the pattern is not UTF-8");
  absl::StatusOr<std::string> translated = TranslatePattern(pattern);
  if (!translated.ok())
    return Annotate(translated.status(), absl::StrCat("the pattern ", Excerpt(pattern, kShownOfPattern)));
  auto impl = std::make_shared<Impl>();
  impl->pattern = pattern;
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context, kMaxParentheses);
  impl->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                             OptionsFor(*translated), &error, &offset, context);
  pcre2_compile_context_free(context);
  if (impl->code == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pattern ", Excerpt(pattern, kShownOfPattern), " does not compile: ", ErrorText(error)));
  }
  pcre2_pattern_info(impl->code, PCRE2_INFO_MATCHEMPTY, &impl->may_be_empty);
  pcre2_jit_compile(impl->code, PCRE2_JIT_COMPLETE);  // without it, matching is slower, and the same
  return Regex(std::move(impl));
}

Regex Regex::Literal(const std::string& text) {
  if (text.empty()) return *Compile(text);  // which matches between characters
  auto impl = std::make_shared<Impl>();
  impl->pattern = text;
  return Regex(std::move(impl));
}

absl::Status Regex::ForEachMatch(absl::string_view text, absl::FunctionRef<void(size_t begin, size_t end)> take) const {
  if (impl_->code == nullptr) {
    const size_t size = impl_->pattern.size();
    for (size_t at = 0; (at = text.find(impl_->pattern, at)) != absl::string_view::npos; at += size)
      take(at, at + size);
    return absl::OkStatus();
  }
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(pcre2_match_data_create(1, nullptr),
                                                                                 pcre2_match_data_free);
  size_t position = 0;
  std::optional<size_t> last_end;  // of the match before
  const auto match = [&](uint32_t options) {
    return pcre2_match(impl_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), position,
                       PCRE2_NO_UTF_CHECK | options, data.get(), nullptr);
  };
  // What can be empty may also match behind the last character.
  while (position < text.size() || (position == text.size() && impl_->may_be_empty != 0 && position > 0)) {
    int result = match(0);
    // The interpreter keeps its stack on the heap.
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the pattern ", Excerpt(impl_->pattern, kShownOfPattern), " fails at byte ", position, " of a text of ",
          text.size(), " bytes, at ", Excerpt(text.substr(position), kShownOfText), ": ", ErrorText(result),
          "; shorten the text there, or give the tokenizer a pattern that tries fewer ways to match it"));
    }
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data.get());
    const size_t begin = span[0], end = span[1];
    if (begin < end || end != last_end) {
      take(begin, end);
      last_end = position = end;
    } else if (position < text.size()) {
      NextCodePoint(text, &position);
    } else {
      break;
    }
  }
  return absl::OkStatus();
}

}  // namespace distill
