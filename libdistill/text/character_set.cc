#include "libdistill/text/character_set.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/case_folding.h"

namespace distill {
namespace {

// Both are spelled out, so that they are Unicode's White_Space in every version of PCRE2.
constexpr absl::string_view kSpace =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}"
    "\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
constexpr absl::string_view kNotSpace =
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}"
    "\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}"
    "\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}";
constexpr absl::string_view kAll = "\\x{0}-\\x{10ffff}";
constexpr absl::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";

// Of an expression that is anchored where the search begins; nullptr: PCRE2 does not know what is in it.
std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> Compiled(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  return {pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                        PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset, nullptr),
          pcre2_code_free};
}

// The opposite within brackets, where there is one: \P{L} of \p{L}.
std::string OppositeMembers(const std::string& members) {
  if (members == kSpace) return std::string(kNotSpace);
  if (members == kNotSpace) return std::string(kSpace);
  const bool has = absl::StartsWith(members, "\\p{"), has_not = absl::StartsWith(members, "\\P{");
  if ((!has && !has_not) || members.find('}') + 1 != members.size()) return "";
  return absl::StrCat(has ? "\\P" : "\\p", members.substr(2));
}

// As Unicode's loose matching of names (UAX 44, LM3).
std::string LooseName(absl::string_view name) {
  std::string loose;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_') loose.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
  }
  return loose;
}

// PCRE2 knows general categories by their short names alone.
absl::string_view CategoryOf(absl::string_view name) {
  static const auto* const categories =
      new absl::flat_hash_map<absl::string_view, absl::string_view>{{"other", "C"},
                                                                    {"control", "Cc"},
                                                                    {"format", "Cf"},
                                                                    {"unassigned", "Cn"},
                                                                    {"privateuse", "Co"},
                                                                    {"surrogate", "Cs"},
                                                                    {"letter", "L"},
                                                                    {"casedletter", "L&"},
                                                                    {"lowercaseletter", "Ll"},
                                                                    {"modifierletter", "Lm"},
                                                                    {"otherletter", "Lo"},
                                                                    {"titlecaseletter", "Lt"},
                                                                    {"uppercaseletter", "Lu"},
                                                                    {"mark", "M"},
                                                                    {"combiningmark", "M"},
                                                                    {"spacingmark", "Mc"},
                                                                    {"enclosingmark", "Me"},
                                                                    {"nonspacingmark", "Mn"},
                                                                    {"number", "N"},
                                                                    {"decimalnumber", "Nd"},
                                                                    {"letternumber", "Nl"},
                                                                    {"othernumber", "No"},
                                                                    {"punctuation", "P"},
                                                                    {"connectorpunctuation", "Pc"},
                                                                    {"dashpunctuation", "Pd"},
                                                                    {"closepunctuation", "Pe"},
                                                                    {"finalpunctuation", "Pf"},
                                                                    {"initialpunctuation", "Pi"},
                                                                    {"otherpunctuation", "Po"},
                                                                    {"openpunctuation", "Ps"},
                                                                    {"symbol", "S"},
                                                                    {"currencysymbol", "Sc"},
                                                                    {"modifiersymbol", "Sk"},
                                                                    {"mathsymbol", "Sm"},
                                                                    {"othersymbol", "So"},
                                                                    {"separator", "Z"},
                                                                    {"lineseparator", "Zl"},
                                                                    {"paragraphseparator", "Zp"},
                                                                    {"spaceseparator", "Zs"},
                                                                    {"c", "C"},
                                                                    {"cc", "Cc"},
                                                                    {"cf", "Cf"},
                                                                    {"cn", "Cn"},
                                                                    {"co", "Co"},
                                                                    {"cs", "Cs"},
                                                                    {"l", "L"},
                                                                    {"lc", "L&"},
                                                                    {"ll", "Ll"},
                                                                    {"lm", "Lm"},
                                                                    {"lo", "Lo"},
                                                                    {"lt", "Lt"},
                                                                    {"lu", "Lu"},
                                                                    {"m", "M"},
                                                                    {"mc", "Mc"},
                                                                    {"me", "Me"},
                                                                    {"mn", "Mn"},
                                                                    {"n", "N"},
                                                                    {"nd", "Nd"},
                                                                    {"nl", "Nl"},
                                                                    {"no", "No"},
                                                                    {"p", "P"},
                                                                    {"pc", "Pc"},
                                                                    {"pd", "Pd"},
                                                                    {"pe", "Pe"},
                                                                    {"pf", "Pf"},
                                                                    {"pi", "Pi"},
                                                                    {"po", "Po"},
                                                                    {"ps", "Ps"},
                                                                    {"s", "S"},
                                                                    {"sc", "Sc"},
                                                                    {"sk", "Sk"},
                                                                    {"sm", "Sm"},
                                                                    {"so", "So"},
                                                                    {"z", "Z"},
                                                                    {"zl", "Zl"},
                                                                    {"zp", "Zp"},
                                                                    {"zs", "Zs"}};
  const auto found = categories->find(name);
  return found == categories->end() ? absl::string_view() : found->second;
}

}  // namespace

std::string PatternOfCharacter(char32_t c) {
  std::string text;
  if (c < 0x80 && !absl::ascii_isalnum(static_cast<unsigned char>(c))) return absl::StrCat("\\x{", absl::Hex(c), "}");
  AppendUtf8(c, &text);
  return text;
}

CharacterSet CharacterSet::Range(char32_t first, char32_t last) {
  std::string members = PatternOfCharacter(first);
  if (last > first) absl::StrAppend(&members, "-", PatternOfCharacter(last));
  return OfMembers(members);
}

CharacterSet CharacterSet::OfMembers(absl::string_view members) {
  CharacterSet set;
  set.members_ = std::string(members);
  return set;
}

CharacterSet CharacterSet::All() { return CharacterSet().Opposite(); }

CharacterSet CharacterSet::OfPattern(std::string pattern) {
  CharacterSet set;
  set.pattern_ = std::move(pattern);
  return set;
}

std::string CharacterSet::Pattern() const {
  if (!pattern_.empty()) return pattern_;
  if (members_.empty()) return absl::StrCat(is_opposite_ ? "[" : "[^", kAll, "]");
  return absl::StrCat(is_opposite_ ? "[^" : "[", members_, "]");
}

CharacterSet CharacterSet::Opposite() const {
  if (!pattern_.empty()) return OfPattern(absl::StrCat("(?:(?!", pattern_, ")[", kAll, "])"));
  if (const std::string opposite = OppositeMembers(members_); !opposite.empty() && !is_opposite_) {
    return OfMembers(opposite);
  }
  CharacterSet set = *this;
  set.is_opposite_ = !is_opposite_;
  return set;
}

void CharacterSet::Add(const CharacterSet& other) {
  const auto is_empty = [](const CharacterSet& s) {
    return s.pattern_.empty() && s.members_.empty() && !s.is_opposite_;
  };
  const auto has_members = [](const CharacterSet& s) { return s.pattern_.empty() && !s.is_opposite_; };
  if (is_empty(other)) return;
  if (has_members(*this) && has_members(other)) {
    members_ += other.members_;
  } else {
    *this = is_empty(*this) ? other : OfPattern(absl::StrCat("(?>", Pattern(), "|", other.Pattern(), ")"));
  }
}

void CharacterSet::IntersectWith(const CharacterSet& other) {
  if (pattern_.empty() && other.pattern_.empty() && is_opposite_ && other.is_opposite_) {
    members_ += other.members_;
  } else {
    *this = OfPattern(absl::StrCat("(?:(?=", Pattern(), ")", other.Pattern(), ")"));
  }
}

CharacterSet CharacterSet::InAnyCase(bool* has_joint_folding) const {
  const auto code = Compiled(Pattern());
  if (code == nullptr) return *this;  // compiling the whole pattern says why
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(pcre2_match_data_create(1, nullptr),
                                                                                 pcre2_match_data_free);
  const auto holds = [&](char32_t c) {
    std::string text;
    AppendUtf8(c, &text);
    return pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, PCRE2_NO_UTF_CHECK,
                       data.get(), nullptr) > 0;
  };
  CharacterSet result = *this;
  for (const CaseGroup& group : CaseGroups()) {
    const auto count = std::count_if(group.members.begin(), group.members.end(), holds);
    if (count == 0) continue;
    if (group.folding.size() > 1) *has_joint_folding = true;
    if (static_cast<size_t>(count) == group.members.size()) continue;
    for (const char32_t member : group.members) result.Add(Range(member, member));
  }
  return result;
}

CharacterSet ClassOfLetter(char letter) {
  return CharacterSet::OfMembers(letter == 's'   ? kSpace
                                 : letter == 'd' ? "\\p{Nd}"
                                 : letter == 'h' ? "0-9A-Fa-f"
                                                 : kWord);
}

CharacterSet WordCharacters() {
  return CharacterSet::OfMembers(absl::StrCat(kWord, "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"));
}

std::optional<CharacterSet> PosixClass(absl::string_view name) {
  static const auto* const classes = new absl::flat_hash_map<absl::string_view, CharacterSet>{
      {"alnum", CharacterSet::OfMembers("\\p{Alphabetic}\\p{Nd}")},
      {"alpha", CharacterSet::OfMembers("\\p{Alphabetic}")},
      {"ascii", CharacterSet::OfMembers("\\x{0}-\\x{7f}")},
      {"blank", CharacterSet::OfMembers("\\x{9}\\p{Zs}")},
      {"cntrl", CharacterSet::OfMembers("\\p{Cc}")},
      {"digit", ClassOfLetter('d')},
      {"graph", CharacterSet::OfMembers(absl::StrCat(kSpace, "\\p{Cc}\\p{Cn}\\p{Cs}")).Opposite()},
      {"lower", CharacterSet::OfMembers("\\p{Lowercase}")},
      {"print", CharacterSet::OfMembers("\\p{Cc}\\p{Cn}\\p{Cs}\\p{Zl}\\p{Zp}").Opposite()},
      {"punct", CharacterSet::OfMembers("\\p{P}\\p{S}")},
      {"space", ClassOfLetter('s')},
      {"upper", CharacterSet::OfMembers("\\p{Uppercase}")},
      {"word", ClassOfLetter('w')},
      {"xdigit", ClassOfLetter('h')}};
  const auto found = classes->find(name);
  return found == classes->end() ? std::nullopt : std::optional<CharacterSet>(found->second);
}

std::optional<CharacterSet> PropertyClass(absl::string_view name) {
  const std::string loose = LooseName(name);
  const bool is_name = std::all_of(loose.begin(), loose.end(), [](char c) { return absl::ascii_isalnum(c); });
  if (loose.empty() || !is_name) return std::nullopt;
  if (loose == "punct") return CharacterSet::OfMembers("\\p{P}");  // and not that of [:punct:], which has symbols
  if (std::optional<CharacterSet> posix = PosixClass(loose == "posixpunct" ? "punct" : loose)) return posix;
  if (loose == "any") return CharacterSet::All();
  if (loose == "assigned") return CharacterSet::OfMembers("\\P{Cn}");
  const absl::string_view category = CategoryOf(loose);
  if (!category.empty()) return CharacterSet::OfMembers(absl::StrCat("\\p{", category, "}"));
  // PCRE2 takes a script's bare name for its extensions. Names of PCRE2 alone are Xan and its like, and those of bidi.
  const bool is_of_pcre2 = (loose[0] == 'x' && loose.size() == 3) ||
                           (absl::StartsWith(loose, "bidi") && loose != "bidic" && loose != "bidicontrol");
  for (const absl::string_view prefix : {"sc:", ""}) {
    if (prefix.empty() && is_of_pcre2) break;
    const std::string members = absl::StrCat("\\p{", prefix, loose, "}");
    if (Compiled(members) != nullptr) return CharacterSet::OfMembers(members);
  }
  return std::nullopt;
}

}  // namespace distill
