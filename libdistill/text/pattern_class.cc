// The rules are those of prs_cc in Oniguruma's regparse.c: a member, then what it is the begin of ("a-"), and what a
// '-' means in each place. "&&" binds weaker than what stands beside each other, and '^' weaker than "&&".
#include "libdistill/text/pattern_class.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr int kMaxDepth = 50;

struct Token {
  enum Kind { kCharacter, kSet, kDash, kAnd, kOpen, kClose };
  Kind kind;
  size_t begin;
  char32_t character = 0;
  CharacterSet set = {};
};

// Oniguruma takes a ']' that comes first for a character where another one follows anywhere.
bool HasClosingBracket(absl::string_view rest) {
  for (size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == ']') return true;
    if (rest[i] == '\\') ++i;
  }
  return false;
}

// Whether "[:" is followed by a name and ":]".
bool IsPosixClass(absl::string_view rest) {
  size_t i = 2;
  if (i < rest.size() && rest[i] == '^') ++i;
  while (i < rest.size() && absl::ascii_isalpha(static_cast<unsigned char>(rest[i]))) ++i;
  return i > 2 && absl::StartsWith(rest.substr(std::min(i, rest.size())), ":]");
}

class BracketParser {
 public:
  BracketParser(PatternReader* reader, int depth) : reader_(*reader), depth_(depth) {}

  absl::StatusOr<BracketClass> Parse(size_t begin) {
    begin_ = begin;
    if (depth_ == kMaxDepth) return reader_.Error(begin, "is nested too deep; write the class with fewer brackets");
    const bool is_opposite = reader_.Take("^");
    if (const size_t at = reader_.position(); reader_.Take("]")) {
      if (!HasClosingBracket(reader_.rest())) return reader_.Error(begin, "is a class without characters");
      DISTILL_RETURN_IF_ERROR(AddCharacter({Token::kCharacter, at, ']'}));
    }
    while (true) {
      DISTILL_ASSIGN_OR_RETURN(const Token token, Next());
      if (token.kind == Token::kClose) break;
      DISTILL_RETURN_IF_ERROR(AddToken(token));
    }
    Flush();
    BracketClass result{members_, is_opposite};
    if (before_and_) result.members.IntersectWith(*before_and_);
    if (count_ == 1 && !before_and_) result.single = single_;
    return result;
  }

 private:
  enum class State { kStart, kValue, kRange, kComplete };  // before "a"; behind "a"; behind "a-"; behind "a-z" or "[a]"

  absl::StatusOr<Token> Next() {
    if (ahead_) {
      const Token token = *ahead_;
      ahead_.reset();
      return token;
    }
    const size_t begin = reader_.position();
    if (reader_.at_end()) return reader_.Error(begin_, "is a class without its ']'");
    if (reader_.Take("&&")) return Token{Token::kAnd, begin};
    const absl::string_view rest = reader_.rest();
    const char32_t c = reader_.Next();
    if (c == ']') return Token{Token::kClose, begin};
    if (c == '-') return Token{Token::kDash, begin};
    if (c == '\\') return Escape(begin);
    if (c != '[') return Token{Token::kCharacter, begin, c};
    return absl::StartsWith(rest, "[:") && IsPosixClass(rest) ? Posix(begin) : Token{Token::kOpen, begin};
  }

  absl::StatusOr<Token> Posix(size_t begin) {
    reader_.Take(":");
    const bool is_opposite = reader_.Take("^");
    DISTILL_ASSIGN_OR_RETURN(const absl::string_view name, reader_.TakeUpTo(":]", begin));
    const std::optional<CharacterSet> set = PosixClass(name);
    if (!set)
      return reader_.Error(begin,
                           "names no class; there are alnum, alpha, ascii, blank, cntrl, digit, graph, "
                           "lower, print, punct, space, upper, word and xdigit");
    return Token{Token::kSet, begin, 0, is_opposite ? set->Opposite() : *set};
  }

  absl::StatusOr<Token> Escape(size_t begin) {
    const absl::string_view rest = reader_.rest();
    const char kind = rest.empty() ? '\0' : rest[0];
    if (absl::string_view("wWdDsShH").find(kind) != absl::string_view::npos) {
      reader_.Next();
      const CharacterSet set = ClassOfLetter(absl::ascii_tolower(static_cast<unsigned char>(kind)));
      return Token{Token::kSet, begin, 0, absl::ascii_isupper(static_cast<unsigned char>(kind)) ? set.Opposite() : set};
    }
    if (absl::StartsWith(rest, "p{") || absl::StartsWith(rest, "P{")) {
      reader_.Next();
      DISTILL_ASSIGN_OR_RETURN(CharacterSet set, ParseProperty(begin, kind == 'P', &reader_));
      return Token{Token::kSet, begin, 0, std::move(set)};
    }
    DISTILL_ASSIGN_OR_RETURN(const char32_t c, reader_.EscapedCharacter(begin, /*in_class=*/true));
    return Token{Token::kCharacter, begin, c};
  }

  absl::Status AddToken(const Token& token) {
    switch (token.kind) {
      case Token::kCharacter:
        return AddCharacter(token);
      case Token::kDash:
        return AddDash(token);
      case Token::kSet:
        if (state_ == State::kRange)
          return reader_.Error(token.begin, "cannot be the end of a range; write \\- for '-'");
        Flush();
        AddSet(token.set);
        state_ = State::kValue;
        return absl::OkStatus();
      case Token::kOpen: {
        if (state_ == State::kRange)
          return reader_.Error(token.begin, "cannot be the end of a range; write \\- for '-'");
        Flush();
        state_ = State::kComplete;
        DISTILL_ASSIGN_OR_RETURN(const BracketClass inner, BracketParser(&reader_, depth_ + 1).Parse(token.begin));
        AddSet(inner.is_opposite ? inner.members.Opposite() : inner.members);
        return absl::OkStatus();
      }
      default:
        Flush();
        state_ = State::kStart;
        if (before_and_) members_.IntersectWith(*before_and_);
        before_and_ = members_;
        members_ = CharacterSet();
        return absl::OkStatus();
    }
  }

  absl::Status AddCharacter(const Token& token) {
    if (state_ != State::kRange) {
      Flush();
      pending_ = token.character;
      state_ = State::kValue;
      return absl::OkStatus();
    }
    if (*pending_ > token.character) return reader_.Error(token.begin, "ends a range before it begins");
    AddSet(CharacterSet::Range(*pending_, token.character));
    pending_.reset();
    state_ = State::kComplete;
    return absl::OkStatus();
  }

  absl::Status AddDash(const Token& token) {
    const Token dash{Token::kCharacter, token.begin, '-'};
    if (state_ != State::kValue) return AddCharacter(dash);
    DISTILL_ASSIGN_OR_RETURN(ahead_, Next());
    if (ahead_->kind == Token::kClose || ahead_->kind == Token::kAnd) return AddCharacter(dash);
    if (!pending_) return reader_.Error(token.begin, "behind a class is no range; write \\-");
    state_ = State::kRange;
    return absl::OkStatus();
  }

  void Flush() {
    if (!pending_) return;
    members_.Add(CharacterSet::Range(*pending_, *pending_));
    single_ = *pending_;
    ++count_;
    pending_.reset();
  }

  void AddSet(const CharacterSet& set) {
    members_.Add(set);
    count_ += 2;
  }

  PatternReader& reader_;
  const int depth_;
  size_t begin_ = 0;
  State state_ = State::kStart;
  CharacterSet members_;
  std::optional<CharacterSet> before_and_;
  std::optional<char32_t> pending_;  // may yet begin a range
  std::optional<Token> ahead_;
  char32_t single_ = 0;
  int count_ = 0;
};

}  // namespace

absl::StatusOr<BracketClass> ParseBracketClass(size_t begin, PatternReader* reader) {
  return BracketParser(reader, 0).Parse(begin);
}

absl::StatusOr<CharacterSet> ParseProperty(size_t begin, bool is_opposite, PatternReader* reader) {
  reader->Take("{");
  is_opposite = reader->Take("^") != is_opposite;
  DISTILL_ASSIGN_OR_RETURN(const absl::string_view name, reader->TakeUpTo("}", begin));
  const std::optional<CharacterSet> set = PropertyClass(name);
  if (!set) {
    return reader->Error(begin,
                         "is no property that is supported; there are general categories, scripts, POSIX "
                         "classes and Unicode's binary properties, and ranges of characters for the rest");
  }
  return is_opposite ? set->Opposite() : *set;
}

}  // namespace distill
