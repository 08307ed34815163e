// The translation of regex_syntax.h. Internal to it.
//
// A parser that goes over the pattern once, and writes each piece of it in PCRE2's syntax.
//
// Both engines backtrack in the same order, so that most pieces are the same in both. These are not:
// - Classes. \w, \d, \s, \h, POSIX classes and "&&" become sets of properties (character_set.h).
// - Case. PCRE2's caseless matching differs in what it does to properties and negated classes, and between versions;
//   so it is never asked for. A character without case stands for a class of all that fold to the same
//   (case_folding.h). Oniguruma also takes several characters for one ("ss" for U+00DF); PCRE2 cannot, so that a text
//   or a class in which this can happen is refused.
// - Counts. {,3} is from 0 to 3; {3,1} is possessive, from 1 to 3; {2}? is what {2} matches, or nothing; and a '+'
//   behind a count repeats it. A count behind a count therefore applies to a group of its own; (?:a+)* becomes a*, as
//   in Oniguruma, since trying all ways to share a text between the two would take for ever.
// - Options. (?m) makes '.' match every character, and (?i) in the middle begins a group that ends where the one
//   around it does: a(?i)b|c is a(?i:b|c).
// - Groups. Names are numbers here, and all groups capture: what matches is the same.
// - Look-behind. PCRE2 needs to know how far each alternative goes back; one whose alternatives may match texts of
//   more than one length is refused, as is all that Oniguruma does not allow in there.
//
// What is the same is what the patterns say. Oniguruma (6.9) itself takes .+ behind \b or \B for a pattern that begins
// with .*, and does not look for it in the middle of a line: it is found here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/text/character_set.h"
#include "libdistill/text/pattern_reader.h"

namespace distill {

class PatternTranslator {
 public:
  explicit PatternTranslator(const std::string& pattern) : reader_(pattern) {}

  [[nodiscard]] absl::StatusOr<std::string> Translate();

 private:
  struct Options {
    bool ignores_case = false;
    bool dot_is_all = false;
    bool is_extended = false;  // spaces and comments are not part of the pattern
    bool in_look_behind = false;
    bool in_positive_look_behind = false;
    bool in_negative_look_behind = false;
    bool in_look_around = false;
  };

  struct Piece {
    std::string text;
    std::optional<int64_t> width = 0;  // how many characters it matches, where that is always as many
    bool is_unit = true;               // a count behind it applies to all of it
    bool is_anchor = false;            // Oniguruma allows no count behind it
    std::string repeated = {};         // not empty: all of it is this, with a '*' or '+'
    int64_t least = 0;                 // 0 or 1, for these
  };

  struct Count {
    std::string text;  // "*", "{1,3}", "*?"
    int64_t least = 0, most = -1;
  };

  // Up to ')' or the end, which are not read. `branches`: the widths of the alternatives.
  absl::StatusOr<Piece> ParseAlternatives(const Options& options, int depth,
                                          std::vector<std::optional<int64_t>>* branches);
  absl::StatusOr<Piece> ParseBranch(const Options& options, int depth);
  absl::StatusOr<Piece> ParseCounted(const Options& options, int depth);
  absl::StatusOr<Piece> ParseAtom(const Options& options, int depth);
  absl::StatusOr<Piece> ParseGroup(size_t begin, const Options& options, int depth);
  absl::StatusOr<Piece> ParseLook(size_t begin, absl::string_view opening, Options options, int depth);
  absl::StatusOr<Piece> ParseCapture(size_t begin, const Options& options, int depth);
  absl::StatusOr<Piece> ParseOptions(size_t begin, Options options, int depth);
  absl::StatusOr<Piece> ParseEscape(size_t begin, const Options& options);
  // \b, \R and others of one letter, which is read.
  absl::StatusOr<Piece> ParseMark(size_t begin, char kind, const Options& options);
  absl::StatusOr<std::optional<Piece>> ParseNumberedReference(size_t begin, const Options& options);
  absl::StatusOr<Piece> ParseNamedReference(size_t begin, const Options& options);
  absl::StatusOr<Piece> ParseClass(size_t begin, const Options& options);
  absl::StatusOr<Piece> Reference(size_t begin, int number, const Options& options);
  absl::StatusOr<Piece> Literal(size_t begin, char32_t c, const Options& options);
  absl::Status CheckJointFoldings(size_t begin);
  absl::StatusOr<std::optional<Count>> ParseCount();
  absl::StatusOr<std::optional<Count>> ParseBracedCount(size_t begin);
  absl::Status ApplyCount(size_t begin, const Count& count, size_t run_begin, int run, Piece* piece);
  absl::Status SkipComments(const Options& options);
  absl::Status Close(size_t begin);
  absl::Status UnmatchedParenthesis();
  void EndRun() {
    folded_.clear();
    ++run_;
  }

  PatternReader reader_;
  std::vector<bool> is_closed_;  // of each capturing group
  std::map<std::string, std::vector<int>> names_;
  std::optional<std::pair<size_t, size_t>> numbered_reference_;
  // The characters without case that stand one behind another, folded, and the number of this run of them.
  std::u32string folded_;
  int run_ = 0;
  int classes_without_case_ = 0;

  static Piece SetPiece(const CharacterSet& set) { return {set.Pattern(), 1}; }
  static Piece Anchor(absl::string_view text) { return {std::string(text), 0, true, true}; }
};

}  // namespace distill
