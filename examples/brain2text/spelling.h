// What frames spell, and how far that is from what was to be spelled. Sees no torch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace distill {

// Log-probabilities of a recording's frames, row by row: [frames, classes]; class 0 is CTC's blank.
struct FrameScores {
  absl::Span<const float> values;
  int64_t classes = 0;
  int64_t frames() const { return static_cast<int64_t>(values.size()) / classes; }
};

// The best class of each frame, repeats once, blanks not at all.
std::vector<int64_t> SpellGreedily(const FrameScores& scores);

// The likeliest classes over all frames that spell them, by prefix beam search without a language model (Hannun et al.
// 2014, "First-Pass Large Vocabulary Continuous Speech Recognition using Bi-Directional Recurrent DNNs", algorithm 1):
// exact where the beam holds all prefixes. `log_probability`, if not null: of all frames that spell them and were kept.
std::vector<int64_t> SpellByBeam(const FrameScores& scores, int64_t beam_width, double* log_probability = nullptr);

// Insertions, deletions and replacements that make one of the other, the fewest (Levenshtein).
int64_t EditDistance(absl::Span<const int64_t> a, absl::Span<const int64_t> b);

// A trial's answer, as evaluations gather it.
struct SpelledTrial {
  int64_t day = 0;
  std::vector<int64_t> spelled = {}, target = {};

  std::string ToBytes() const;
  // DataLoss: these are not such bytes.
  [[nodiscard]] static absl::StatusOr<SpelledTrial> FromBytes(const std::string& bytes);
};

// The public data's classes with the blank, and those of pairs of them.
inline constexpr int64_t kPhonemeClasses = 41, kDiphoneClasses = kPhonemeClasses * kPhonemeClasses;

// Of a model with kDiphoneClasses, spelled and target in phonemes; other trials as they are. A diphone is the phoneme
// before * 41 + the one that it leads to, a recording's first one below 41. A phoneme that leads to itself is held, so
// that equal ones in a row are one; 0, the end, is none.
SpelledTrial InPhonemes(SpelledTrial trial, int64_t n_classes);

// Edits over classes to be spelled: of all trials and of each day.
struct ErrorRates {
  struct Counts {
    int64_t edits = 0, classes = 0;
    double rate() const;  // 0 without classes to be spelled
  };
  Counts all = {};
  std::map<int64_t, Counts> by_day = {};

  void Add(const SpelledTrial& trial);
};

}  // namespace distill
