#include "libdistill/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"

namespace distill {
namespace {

// Both classes are spelled out, so that they are Unicode's White_Space in every version of PCRE2, and also
// work inside brackets.
constexpr absl::string_view kSpace =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}"
    "\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
constexpr absl::string_view kNotSpace =
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}"
    "\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}"
    "\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}";

absl::Status Unsupported(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("'", what, "' in the pattern is not supported"));
}

// Options after "(?" other than i mean something else in Oniguruma's syntax than in PCRE2's, and "(*" is none of its.
absl::Status CheckGroup(absl::string_view rest) {
  if (absl::StartsWith(rest, "(*")) return Unsupported("(*");
  if (!absl::StartsWith(rest, "(?")) return absl::OkStatus();
  for (const char c : rest.substr(2)) {
    if (c == 'i' || c == '-') continue;
    if (c >= 'a' && c <= 'z') return Unsupported(rest.substr(0, 4));
    break;
  }
  return absl::OkStatus();
}

// The escape that `rest` begins with in PCRE2's syntax; *count: how many bytes of `rest` it takes.
absl::StatusOr<std::string> TranslateEscape(absl::string_view rest, bool in_class, size_t* count) {
  const char kind = rest.size() > 1 ? rest[1] : '\0';
  *count = 2;
  if (kind == 's' || kind == 'S') {
    const absl::string_view members = kind == 's' ? kSpace : kNotSpace;
    return in_class ? std::string(members) : absl::StrCat("[", members, "]");
  }
  if (absl::string_view("wWhHbBRXQEGKvV").find(kind) != absl::string_view::npos) return Unsupported(rest.substr(0, 2));
  // \p{L} and \x{41} whole: their brace is no quantifier's.
  const bool braced = rest.size() > 2 && rest[2] == '{' && (kind == 'p' || kind == 'P' || kind == 'x');
  if (const size_t close = rest.find('}'); braced && close != absl::string_view::npos) *count = close + 1;
  return std::string(rest.substr(0, *count));
}

// The same pattern in PCRE2's syntax.
absl::StatusOr<std::string> Translate(const std::string& pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0, count = 1; i < pattern.size(); i += count) {
    const absl::string_view rest = absl::string_view(pattern).substr(i);
    count = 1;
    if (rest[0] == '\\') {
      DISTILL_ASSIGN_OR_RETURN(const std::string escape, TranslateEscape(rest, in_class, &count));
      out += escape;
      continue;
    }
    if (in_class && (rest[0] == '[' || absl::StartsWith(rest, "&&"))) return Unsupported("class within a class");
    if (!in_class) DISTILL_RETURN_IF_ERROR(CheckGroup(rest));
    if (!in_class && absl::StartsWith(rest, "}+")) return Unsupported("}+");
    out.push_back(rest[0]);
    if (in_class) {
      in_class = rest[0] != ']';
    } else if (rest[0] == '[') {
      in_class = true;
      if (absl::StartsWith(rest, "[^")) out.push_back(pattern[i + count++]);
      // A bracket right after the opening one is a member.
      if (absl::StartsWith(rest.substr(count), "]")) {
        out += "\\]";
        ++count;
      }
    }
  }
  return out;
}

std::string ErrorText(int error) {
  PCRE2_UCHAR message[256] = {};
  pcre2_get_error_message(error, message, sizeof(message));
  return reinterpret_cast<const char*>(message);
}

// The beginning of a text for a message: whole code points, without line breaks.
std::string Excerpt(absl::string_view text) {
  constexpr size_t kShownBytes = 40;
  size_t end = 0;
  while (end < text.size() && end < kShownBytes) NextCodePoint(text, &end);
  return absl::StrCat("'", absl::StrReplaceAll(text.substr(0, end), {{"\n", "\\n"}, {"\r", "\\r"}}),
                      end < text.size() ? "..." : "", "'");
}

}  // namespace

struct Regex::Impl {
  std::string pattern;
  pcre2_code* code = nullptr;
  ~Impl() { pcre2_code_free(code); }
};

absl::StatusOr<Regex> Regex::Compile(const std::string& pattern) {
  if (pattern.size() > 65536) return absl::InvalidArgumentError("the pattern is longer than 65536 bytes");
  if (!IsValidUtf8(pattern)) return absl::InvalidArgumentError("the pattern is not UTF-8");
  DISTILL_ASSIGN_OR_RETURN(const std::string translated, Translate(pattern));
  auto impl = std::make_shared<Impl>();
  impl->pattern = pattern;
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  // Oniguruma's Ruby syntax: ^ and $ are those of lines.
  impl->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (impl->code == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("the pattern '", pattern, "' does not compile: ", ErrorText(error)));
  }
  pcre2_jit_compile(impl->code, PCRE2_JIT_COMPLETE);  // without it, matching is slower, and the same
  return Regex(std::move(impl));
}

std::string Regex::Escape(absl::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (absl::ascii_ispunct(static_cast<unsigned char>(c))) pattern.push_back('\\');
    pattern.push_back(c);
  }
  return pattern;
}

absl::Status Regex::ForEachMatch(absl::string_view text, absl::FunctionRef<void(size_t begin, size_t end)> take) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(pcre2_match_data_create(1, nullptr),
                                                                                 pcre2_match_data_free);
  size_t position = 0;
  const auto match = [&](uint32_t options) {
    return pcre2_match(impl_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), position,
                       PCRE2_NO_UTF_CHECK | options, data.get(), nullptr);
  };
  while (position < text.size()) {
    int result = match(0);
    // The interpreter keeps its stack on the heap.
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the pattern '", impl_->pattern, "' fails at byte ", position, " of a text of ", text.size(),
                       " bytes, at ", Excerpt(text.substr(position)), ": ", ErrorText(result),
                       "; shorten the text there, or give the tokenizer a pattern that tries fewer ways to match it"));
    }
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data.get());
    position = span[1];
    if (span[0] < span[1]) {
      take(span[0], span[1]);
    } else {
      NextCodePoint(text, &position);
    }
  }
  return absl::OkStatus();
}

}  // namespace distill
