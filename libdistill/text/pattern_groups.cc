// Groups and escapes outside of brackets.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/pattern_class.h"
#include "libdistill/text/pattern_translator.h"
#include "libdistill/text/unicode.h"

namespace distill {
namespace {

constexpr int kMaxDepth = 100;

// Where \w is on one side alone, or not.
std::string WordBoundary(bool is_one) {
  const std::string word = WordCharacters().Pattern();
  const absl::string_view behind_word = is_one ? "!" : "=", behind_other = is_one ? "=" : "!";
  return absl::StrCat("(?:(?<=", word, ")(?", behind_word, word, ")|(?<!", word, ")(?", behind_other, word, "))");
}

}  // namespace

absl::StatusOr<PatternTranslator::Piece> PatternTranslator::ParseGroup(size_t begin, const Options& options,
                                                                       int depth) {
  if (depth == kMaxDepth) return reader_.Error(begin, absl::StrCat("is within more than ", kMaxDepth, " groups"));
  if (reader_.Take("*")) return reader_.Error(begin, "is a callout, which is not supported; write \\* for '*'");
  if (!reader_.Take("?")) return ParseCapture(begin, options, depth);
  for (const absl::string_view opening : {"=", "!", "<=", "<!"}) {
    if (reader_.Take(opening)) return ParseLook(begin, opening, options, depth);
  }
  const bool is_atomic = reader_.Take(">");
  if (is_atomic || reader_.Take(":")) {
    // Oniguruma takes (?:s)s for ss, but not an atomic group.
    if (is_atomic) EndRun();
    DISTILL_ASSIGN_OR_RETURN(Piece piece, ParseAlternatives(options, depth + 1, nullptr));
    if (is_atomic) EndRun();
    DISTILL_RETURN_IF_ERROR(Close(begin));
    if (is_atomic) return Piece{absl::StrCat("(?>", piece.text, ")"), piece.width};
    piece.text = absl::StrCat("(?:", piece.text, ")");
    piece.is_unit = true;
    return piece;
  }
  for (const absl::string_view quote : {"<", "'"}) {
    if (!reader_.Take(quote)) continue;
    DISTILL_ASSIGN_OR_RETURN(const absl::string_view name, reader_.TakeUpTo(quote == "<" ? ">" : "'", begin));
    size_t at = 0;
    const char32_t first = name.empty() ? '-' : NextCodePoint(name, &at);
    if (!IsWordCharacter(first) || (first >= '0' && first <= '9') || absl::StrContains(name, ")")) {
      return reader_.Error(begin, "has no name of letters");
    }
    names_[std::string(name)].push_back(static_cast<int>(is_closed_.size()) + 1);
    return ParseCapture(begin, options, depth);
  }
  return ParseOptions(begin, options, depth);
}

absl::StatusOr<PatternTranslator::Piece> PatternTranslator::ParseCapture(size_t begin, const Options& options,
                                                                         int depth) {
  if (options.in_negative_look_behind) {
    return reader_.Error(begin, "captures in a negative look-behind, which Oniguruma does not allow; write (?:...)");
  }
  EndRun();
  const size_t number = is_closed_.size();
  is_closed_.push_back(false);
  DISTILL_ASSIGN_OR_RETURN(const Piece piece, ParseAlternatives(options, depth + 1, nullptr));
  EndRun();
  DISTILL_RETURN_IF_ERROR(Close(begin));
  is_closed_[number] = true;
  return Piece{absl::StrCat("(", piece.text, ")"), piece.width};
}

absl::StatusOr<PatternTranslator::Piece> PatternTranslator::ParseLook(size_t begin, absl::string_view opening,
                                                                      Options options, int depth) {
  const bool is_behind = opening[0] == '<', is_negative = opening.back() == '!';
  // In a look-behind Oniguruma allows another one, but no look-ahead, and in a positive one no negative one.
  if (options.in_look_behind && (!is_behind || (is_negative && options.in_positive_look_behind))) {
    return reader_.Error(begin, "is in a look-behind, where Oniguruma does not allow it");
  }
  options.in_look_around = true;
  options.in_look_behind = options.in_look_behind || is_behind;
  options.in_positive_look_behind = options.in_positive_look_behind || (is_behind && !is_negative);
  options.in_negative_look_behind = options.in_negative_look_behind || (is_behind && is_negative);
  EndRun();
  std::vector<std::optional<int64_t>> widths;
  DISTILL_ASSIGN_OR_RETURN(const Piece piece, ParseAlternatives(options, depth + 1, &widths));
  EndRun();
  if (is_behind && std::any_of(widths.begin(), widths.end(), [](const auto& width) { return !width; })) {
    return reader_.Error(begin,
                         "is a look-behind for texts of several lengths, which is not supported; write one "
                         "alternative for each length");
  }
  DISTILL_RETURN_IF_ERROR(Close(begin));
  return Anchor(absl::StrCat("(?", opening, piece.text, ")"));
}

// (?i-m:...), and (?i), which is a group up to the end of the one around it.
absl::StatusOr<PatternTranslator::Piece> PatternTranslator::ParseOptions(size_t begin, Options options, int depth) {
  for (bool is_off = false, is_first = true; !reader_.Take(":"); is_first = false) {
    if (reader_.at_end()) return reader_.Error(begin, "is a group without its ')'");
    if (reader_.Take("-")) {
      is_off = true;
    } else if (reader_.Take("i")) {
      options.ignores_case = !is_off;
    } else if (reader_.Take("m")) {
      options.dot_is_all = !is_off;
    } else if (reader_.Take("x")) {
      options.is_extended = !is_off;
    } else if (!is_first && reader_.Take(")")) {
      EndRun();
      DISTILL_ASSIGN_OR_RETURN(const Piece piece, ParseAlternatives(options, depth + 1, nullptr));
      EndRun();
      return Piece{absl::StrCat("(?:", piece.text, ")"), piece.width};
    } else {
      reader_.Next();
      return reader_.Error(begin,
                           "is not supported; there are groups, look-ahead, look-behind and the options i, m "
                           "(where '.' matches every character) and x");
    }
  }
  EndRun();
  DISTILL_ASSIGN_OR_RETURN(const Piece piece, ParseAlternatives(options, depth + 1, nullptr));
  EndRun();
  DISTILL_RETURN_IF_ERROR(Close(begin));
  return Piece{absl::StrCat("(?:", piece.text, ")"), piece.width};
}

absl::StatusOr<PatternTranslator::Piece> PatternTranslator::ParseEscape(size_t begin, const Options& options) {
  const absl::string_view rest = reader_.rest();
  const char kind = rest.empty() ? '\0' : rest[0];
  const bool is_upper = absl::ascii_isupper(static_cast<unsigned char>(kind));
  const auto is_one_of = [kind](absl::string_view kinds) { return kinds.find(kind) != absl::string_view::npos; };
  if (kind >= '1' && kind <= '9') {
    DISTILL_ASSIGN_OR_RETURN(std::optional<Piece> reference, ParseNumberedReference(begin, options));
    if (reference) return *std::move(reference);
  }
  const bool is_named = rest.size() > 1 && (rest[1] == '<' || rest[1] == '\'');
  if (kind == 'k' && is_named) return ParseNamedReference(begin, options);
  const bool is_property = is_one_of("pP") && rest.size() > 1 && rest[1] == '{';
  if (!is_property && !is_one_of("wWdDsShHbBAZzGKRNOXyYg")) {
    DISTILL_ASSIGN_OR_RETURN(const char32_t c, reader_.EscapedCharacter(begin, /*in_class=*/false));
    return Literal(begin, c, options);
  }
  reader_.Next();
  if (kind == 'g' && !is_named) return Literal(begin, 'g', options);
  EndRun();
  if (is_property) {
    // Oniguruma takes the class of this name for \w, by any spelling.
    DISTILL_ASSIGN_OR_RETURN(const CharacterSet set, ParseProperty(begin, is_upper, &reader_));
    const std::string word = ClassOfLetter('w').Pattern();
    if (set.Pattern() == word) return SetPiece(WordCharacters());
    return SetPiece(set.Opposite().Pattern() == word ? WordCharacters().Opposite() : set);
  }
  if (is_one_of("wWdDsShH")) {
    const CharacterSet set =
        is_one_of("wW") ? WordCharacters() : ClassOfLetter(absl::ascii_tolower(static_cast<unsigned char>(kind)));
    return SetPiece(is_upper ? set.Opposite() : set);
  }
  return ParseMark(begin, kind, options);
}

absl::StatusOr<PatternTranslator::Piece> PatternTranslator::ParseMark(size_t begin, char kind, const Options& options) {
  if ((kind == 'Z' || kind == 'z') && options.in_look_behind) {
    return reader_.Error(begin, "is in a look-behind, where Oniguruma does not allow it");
  }
  switch (kind) {
    case 'b':
    case 'B':
      return Anchor(WordBoundary(kind == 'b'));
    case 'A':
    case 'Z':
    case 'z':
    case 'G':
      return Anchor(absl::StrCat("\\", absl::string_view(&kind, 1)));
    case 'K':
      if (options.in_look_around) return reader_.Error(begin, "is in a look-around, where it is not supported");
      return Anchor("\\K");
    case 'R':
      return Piece{"(?>\\r\\n|[\\n-\\r\\x{85}\\x{2028}\\x{2029}])", std::nullopt};
    case 'X':
      // Where it begins within what a reader takes for one character, Oniguruma looks back and PCRE2 does not.
      if (begin == 0 && (reader_.rest().empty() || reader_.rest() == "+" || reader_.rest() == "*")) {
        return Piece{"\\X", std::nullopt};
      }
      return reader_.Error(begin, "is supported as the whole pattern alone, with or without a '+' or '*'");
    case 'N':
      return Piece{"[^\\n]", 1};
    case 'O':
      return SetPiece(CharacterSet::All());
    default:
      return reader_.Error(begin, kind == 'g' ? "calls a group, which is not supported; write the group out"
                                              : "asks for the bounds of what a reader takes for one character, which "
                                                "is not supported; the pattern \\X matches such characters");
  }
}

// nullopt: it is an octal number.
absl::StatusOr<std::optional<PatternTranslator::Piece>> PatternTranslator::ParseNumberedReference(
    size_t begin, const Options& options) {
  constexpr int kMostDigits = 9;
  const size_t at = reader_.position();
  int digits = 0;
  const auto number = static_cast<int>(reader_.Digits(10, kMostDigits, &digits));
  if (number <= 9 || number <= static_cast<int>(is_closed_.size())) {
    DISTILL_ASSIGN_OR_RETURN(Piece piece, Reference(begin, number, options));
    numbered_reference_ = {begin, reader_.position()};
    return std::optional<Piece>(std::move(piece));
  }
  reader_.GoTo(at);
  return std::optional<Piece>();
}

absl::StatusOr<PatternTranslator::Piece> PatternTranslator::ParseNamedReference(size_t begin, const Options& options) {
  reader_.Next();
  const bool is_quoted = reader_.Take("'");
  if (!is_quoted) reader_.Take("<");
  DISTILL_ASSIGN_OR_RETURN(const absl::string_view name, reader_.TakeUpTo(is_quoted ? "'" : ">", begin));
  int number = 0;
  if (!absl::StartsWith(name, "+") && absl::SimpleAtoi(name, &number)) {
    numbered_reference_ = {begin, reader_.position()};
    return Reference(begin, number < 0 ? static_cast<int>(is_closed_.size()) + 1 + number : number, options);
  }
  const auto found = names_.find(std::string(name));
  if (found == names_.end() || absl::StrContains(name, "-") || absl::StrContains(name, "+")) {
    return reader_.Error(begin, "names no group before it");
  }
  if (found->second.size() > 1) return reader_.Error(begin, "names several groups, which is not supported");
  return Reference(begin, found->second[0], options);
}

absl::StatusOr<PatternTranslator::Piece> PatternTranslator::Reference(size_t begin, int number,
                                                                      const Options& options) {
  EndRun();
  if (number < 1 || number > static_cast<int>(is_closed_.size()) || !is_closed_[number - 1]) {
    return reader_.Error(begin, "refers to no group that ends before it");
  }
  if (options.ignores_case) return reader_.Error(begin, "refers to a group without case, which is not supported");
  return Piece{absl::StrCat("\\g{", number, "}"), std::nullopt};
}

}  // namespace distill
