#include "libdistill/text/regex_syntax.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/text/case_folding.h"
#include "libdistill/text/pattern_class.h"
#include "libdistill/text/pattern_translator.h"

namespace distill {
namespace {

constexpr int kMaxCounts = 20;               // behind one another
constexpr int kMaxClassesWithoutCase = 200;  // each is asked about all characters that have case
constexpr int64_t kMaxCount = 65535;         // of PCRE2; Oniguruma has 100000

}  // namespace

absl::StatusOr<std::string> PatternTranslator::Translate() {
  DISTILL_ASSIGN_OR_RETURN(const Piece piece, ParseAlternatives(Options(), 0, nullptr));
  if (!reader_.at_end()) return UnmatchedParenthesis();
  if (numbered_reference_ && !names_.empty()) {
    reader_.GoTo(numbered_reference_->second);
    return reader_.Error(numbered_reference_->first, "is a number where groups have names; write \\k<name>");
  }
  return piece.text;
}

absl::Status PatternTranslator::UnmatchedParenthesis() {
  const size_t begin = reader_.position();
  reader_.Next();
  return reader_.Error(begin, "has no '(' before it; write \\)");
}

absl::Status PatternTranslator::Close(size_t begin) {
  return reader_.Take(")") ? absl::OkStatus() : reader_.Error(begin, "is a group without its ')'");
}

absl::StatusOr<PatternTranslator::Piece> PatternTranslator::ParseAlternatives(
    const Options& options, int depth, std::vector<std::optional<int64_t>>* branches) {
  DISTILL_ASSIGN_OR_RETURN(Piece all, ParseBranch(options, depth));
  if (branches != nullptr) branches->push_back(all.width);
  while (reader_.Take("|")) {
    EndRun();
    DISTILL_ASSIGN_OR_RETURN(const Piece branch, ParseBranch(options, depth));
    if (branches != nullptr) branches->push_back(branch.width);
    absl::StrAppend(&all.text, "|", branch.text);
    if (branch.width != all.width) all.width = std::nullopt;
    all.is_unit = false;
    all.repeated.clear();
    all.is_anchor = all.is_anchor || branch.is_anchor;
    EndRun();
  }
  return all;
}

absl::StatusOr<PatternTranslator::Piece> PatternTranslator::ParseBranch(const Options& options, int depth) {
  Piece branch{"", 0, false};
  int count = 0;
  while (true) {
    DISTILL_RETURN_IF_ERROR(SkipComments(options));
    if (reader_.at_end() || absl::StartsWith(reader_.rest(), ")") || absl::StartsWith(reader_.rest(), "|")) break;
    DISTILL_ASSIGN_OR_RETURN(const Piece piece, ParseCounted(options, depth));
    branch.text += piece.text;
    branch.width = branch.width && piece.width ? std::optional<int64_t>(*branch.width + *piece.width) : std::nullopt;
    branch.is_unit = ++count == 1 && piece.is_unit;
    branch.is_anchor = count == 1 && piece.is_anchor;
    branch.repeated = count == 1 ? piece.repeated : "";
    branch.least = piece.least;
  }
  return branch;
}

absl::Status PatternTranslator::SkipComments(const Options& options) {
  while (!reader_.at_end()) {
    const size_t begin = reader_.position();
    if (reader_.Take("(?#")) {
      for (char32_t c = 0; c != ')';) {
        if (reader_.at_end()) return reader_.Error(begin, "is a comment without its ')'");
        c = reader_.Next();
        if (c == '\\' && !reader_.at_end()) reader_.Next();
      }
    } else if (options.is_extended && reader_.Take("#")) {
      while (!reader_.at_end() && reader_.Next() != '\n') {
      }
    } else if (!options.is_extended || absl::string_view(" \t\n\r\f").find(reader_.rest()[0]) == std::string::npos) {
      return absl::OkStatus();
    } else {
      reader_.Next();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PatternTranslator::Piece> PatternTranslator::ParseCounted(const Options& options, int depth) {
  const size_t begin = reader_.position(), run_begin = folded_.size();
  const int run = run_;
  DISTILL_ASSIGN_OR_RETURN(Piece piece, ParseAtom(options, depth));
  for (int counts = 0;; ++counts) {
    DISTILL_RETURN_IF_ERROR(SkipComments(options));
    DISTILL_ASSIGN_OR_RETURN(const std::optional<Count> count, ParseCount());
    if (!count) return piece;
    if (counts == kMaxCounts) return reader_.Error(begin, "has too many counts behind it");
    DISTILL_RETURN_IF_ERROR(ApplyCount(begin, *count, run_begin, run, &piece));
  }
}

absl::Status PatternTranslator::ApplyCount(size_t begin, const Count& count, size_t run_begin, int run, Piece* piece) {
  if (piece->is_anchor) return reader_.Error(begin, "matches no text, and cannot be repeated");
  const bool is_plain = count.text == "*" || count.text == "+";
  const int64_t least = piece->repeated.empty() ? count.least : std::min(count.least, piece->least);
  const std::string unit = is_plain && !piece->repeated.empty() ? piece->repeated
                           : piece->is_unit                     ? piece->text
                                                                : absl::StrCat("(?:", piece->text, ")");
  const bool is_exact = count.least == count.most && piece->width;
  Piece counted{"", is_exact ? std::optional<int64_t>(*piece->width * count.least) : std::nullopt, false};
  counted.text = unit + (!is_plain ? count.text : least == 0 ? "*" : "+");
  if (is_plain) counted.repeated = unit;
  counted.least = least;
  *piece = std::move(counted);
  if (count.least != count.most || run != run_) {
    EndRun();
    return absl::OkStatus();
  }
  // Oniguruma takes s{2} for ss; three times are as good as more.
  const std::u32string repeated = folded_.substr(std::min(run_begin, folded_.size()));
  for (int64_t times = 1; times < std::min<int64_t>(count.least, 3); ++times) {
    for (const char32_t c : repeated) {
      folded_.push_back(c);
      DISTILL_RETURN_IF_ERROR(CheckJointFoldings(begin));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<PatternTranslator::Count>> PatternTranslator::ParseCount() {
  const size_t begin = reader_.position();
  std::optional<Count> count;
  for (const auto& [text, least, most] : {std::tuple("*", 0, -1), std::tuple("+", 1, -1), std::tuple("?", 0, 1)}) {
    if (!reader_.Take(text)) continue;
    count = Count{text, least, most};
    for (const char* kind : {"?", "+"}) {
      if (!reader_.Take(kind)) continue;
      count->text += kind;
      break;
    }
    return count;
  }
  return reader_.Take("{") ? ParseBracedCount(begin) : count;
}

// Behind '{' at `begin`; nullopt, and nothing is read: it is a character.
absl::StatusOr<std::optional<PatternTranslator::Count>> PatternTranslator::ParseBracedCount(size_t begin) {
  const auto is_character = [&] {
    reader_.GoTo(begin);
    return std::optional<Count>();
  };
  constexpr int kDigits = 18;
  int low_digits = 0, high_digits = 0;
  Count count;
  count.least = static_cast<int64_t>(reader_.Digits(10, kDigits, &low_digits));
  count.most = count.least;
  const bool is_range = reader_.Take(",");
  if (is_range) count.most = static_cast<int64_t>(reader_.Digits(10, kDigits, &high_digits));
  if (low_digits + high_digits == 0 || (!is_range && low_digits == 0)) return is_character();
  if (count.least > kMaxCount || count.most > kMaxCount) {
    return reader_.Error(begin, absl::StrCat("counts further than ", kMaxCount));
  }
  if (!reader_.Take("}")) return is_character();
  if (is_range && high_digits == 0) count.most = -1;
  if (!is_range) {
    count.text = absl::StrCat("{", count.least, "}");
    return std::optional<Count>(count);
  }
  const bool is_possessive = count.most >= 0 && count.least > count.most;
  if (is_possessive) std::swap(count.least, count.most);
  const std::string most = count.most < 0 ? "" : absl::StrCat(count.most);
  count.text = absl::StrCat("{", count.least, ",", most, "}", is_possessive ? "+" : reader_.Take("?") ? "?" : "");
  return std::optional<Count>(count);
}

absl::StatusOr<PatternTranslator::Piece> PatternTranslator::ParseAtom(const Options& options, int depth) {
  const size_t begin = reader_.position();
  DISTILL_ASSIGN_OR_RETURN(const std::optional<Count> count, ParseCount());
  if (count) return reader_.Error(begin, "has nothing before it to repeat; write \\ before it if it is a character");
  const char32_t c = reader_.Next();
  switch (c) {
    case '(':
      return ParseGroup(begin, options, depth);
    case '[':
      return ParseClass(begin, options);
    case '\\':
      return ParseEscape(begin, options);
    default:
      break;
  }
  if (c != '.' && c != '^' && c != '$') return Literal(begin, c, options);
  EndRun();
  if (c == '.') return Piece{options.dot_is_all ? "(?s:.)" : ".", 1};
  return Anchor(c == '^' ? "^" : "$");
}

absl::Status PatternTranslator::CheckJointFoldings(size_t begin) {
  if (!EndsWithJointFolding(folded_)) return absl::OkStatus();
  return reader_.Error(begin,
                       "without case, with what stands before it, also matches a single character, which is not "
                       "supported; write both cases in brackets, without (?i)");
}

absl::StatusOr<PatternTranslator::Piece> PatternTranslator::Literal(size_t begin, char32_t c, const Options& options) {
  if (!options.ignores_case) {
    EndRun();
    return Piece{PatternOfCharacter(c), 1};
  }
  const CaseGroup* const group = CaseGroupOf(c);
  if (group != nullptr && group->folding.size() > 1) {
    return reader_.Error(begin,
                         "without case also matches several characters, which is not supported; write what it "
                         "may match, without (?i)");
  }
  folded_.push_back(group == nullptr ? c : group->folding[0]);
  DISTILL_RETURN_IF_ERROR(CheckJointFoldings(begin));
  if (group == nullptr) return Piece{PatternOfCharacter(c), 1};
  CharacterSet set;
  for (const char32_t member : group->members) set.Add(CharacterSet::Range(member, member));
  return SetPiece(set);
}

absl::StatusOr<PatternTranslator::Piece> PatternTranslator::ParseClass(size_t begin, const Options& options) {
  DISTILL_ASSIGN_OR_RETURN(BracketClass parsed, ParseBracketClass(begin, &reader_));
  if (parsed.single && !parsed.is_opposite) return Literal(begin, *parsed.single, options);
  EndRun();
  if (options.ignores_case) {
    if (++classes_without_case_ > kMaxClassesWithoutCase) {
      return reader_.Error(begin,
                           absl::StrCat("is one of more than ", kMaxClassesWithoutCase, " classes without case"));
    }
    bool has_joint_folding = false;
    parsed.members = parsed.members.InAnyCase(&has_joint_folding);
    if (has_joint_folding && !parsed.is_opposite) {
      return reader_.Error(begin,
                           "without case also matches several characters, which is not supported; write both "
                           "cases, without (?i)");
    }
  }
  return SetPiece(parsed.is_opposite ? parsed.members.Opposite() : parsed.members);
}

absl::StatusOr<std::string> TranslatePattern(const std::string& pattern) {
  return PatternTranslator(pattern).Translate();
}

}  // namespace distill
