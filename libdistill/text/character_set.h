// Sets of characters of a pattern, written as PCRE2 has them. Internal to text/.
//
// Oniguruma has set operations within brackets, PCRE2 (before 10.45) has none. So a set is kept as what PCRE2 writes
// within brackets as long as it is that, or the opposite of it; and after that as an expression that matches one
// character: A or B is (?>A|B), A and B is (?:(?=A)B), not A is (?:(?!A)any). Each is atomic or matches in one way
// alone, so that repeating it does not backtrack into it.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace distill {

class CharacterSet {
 public:
  CharacterSet() = default;  // empty
  static CharacterSet Range(char32_t first, char32_t last);
  // What PCRE2 has within brackets.
  static CharacterSet OfMembers(absl::string_view members);
  static CharacterSet All();

  CharacterSet Opposite() const;
  void Add(const CharacterSet& other);
  void IntersectWith(const CharacterSet& other);

  // In PCRE2's syntax: matches one character.
  std::string Pattern() const;

  // With all that differs from a member in case alone. *has_joint_folding becomes true where a member is the same as a
  // text of several characters when case does not count.
  CharacterSet InAnyCase(bool* has_joint_folding) const;

 private:
  static CharacterSet OfPattern(std::string pattern);

  std::string members_;
  bool is_opposite_ = false;
  std::string pattern_;  // not empty: the set is this
};

// A character by itself, in or outside of brackets.
std::string PatternOfCharacter(char32_t character);

// \s, \d, \h, and \w as it is within brackets, by these letters.
CharacterSet ClassOfLetter(char letter);
// \w outside of brackets, which has six characters of Latin-1 more: numbers above and fractions.
CharacterSet WordCharacters();

// By its name in [:name:]. nullopt: there is none.
std::optional<CharacterSet> PosixClass(absl::string_view name);
// By its name in \p{name}: a general category, a script, a property that has or has not, and a POSIX class. Case,
// spaces, '-' and
// '_' of the name do not count. nullopt: there is none, or PCRE2 does not know it (blocks, ages).
std::optional<CharacterSet> PropertyClass(absl::string_view name);

}  // namespace distill
