// Masked language modelling (Devlin et al. 2019, "BERT", section 3.1): which tokens of a text are hidden, and by what.
//
//   DISTILL_ASSIGN_OR_RETURN(auto masking, MlmMasking::Create(tokenizer, {.whole_word_mask = true}));
//   const MaskedTokens masked = masking.Mask({.ids = ids}, epoch, sample_id);
//
// As transformers' DataCollatorForLanguageModeling, but for where chance comes from: the mask of a sample is a function
// of seed, epoch and the sample's id alone. So each epoch has another one, and a run that was resumed, on any number of
// ranks, has the same ones.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libdistill/core/describe.h"
#include "libdistill/text/encoding.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

struct MlmOptions {
  double mlm_probability = 0.15;
  // Of the chosen tokens, so many become the mask token, and so many any token of the vocabulary; the others stay.
  double mask_replace_prob = 0.8;
  double random_replace_prob = 0.1;
  // Words are chosen in place of tokens. All tokens of a chosen word then become the mask token, as in transformers.
  bool whole_word_mask = false;
  uint64_t seed = 42;
};

template <class V>
void Describe(V& v, MlmOptions& o) {
  v.Group("Data");
  v.Field("mlm_probability", o.mlm_probability, Within(0, 1),
          "share of the tokens (or words) that the model is to find")
      .Alias("masking_probability", "mask_prob", "mlm_prob");
  v.Field("mask_replace_prob", o.mask_replace_prob, Within(0, 1), "share of these that becomes the mask token");
  v.Field("random_replace_prob", o.random_replace_prob, Within(0, 1), "share of these that becomes any token");
  v.Field("whole_word_mask", o.whole_word_mask, "choose whole words, and replace all of their tokens by the mask token")
      .Alias("whole_word_masking", "wwm");
  v.Group("Run");
  v.Field("seed", o.seed, "seed of shuffles, masks and random weights");
  v.Together([&o]() -> absl::Status {
    if (o.mask_replace_prob + o.random_replace_prob <= 1) return absl::OkStatus();
    return absl::InvalidArgumentError("mask_replace_prob and random_replace_prob are together more than 1");
  });
}

// What masking knows of a vocabulary.
struct MlmVocabulary {
  int32_t mask_id = 0;
  int64_t size = 0;                          // random tokens are drawn from the ids below it
  std::vector<uint8_t> is_special = {};      // by id: such tokens are never chosen; ids beyond its end are not special
  std::vector<uint8_t> continues_word = {};  // by id: belongs to the word of the token before; empty: not known
};

// Words begin where WordPiece has no "##", byte-level BPE a space (as RoBERTa's) or SentencePiece its "▁" before the
// token. InvalidArgument: the tokenizer names no mask token.
[[nodiscard]] absl::StatusOr<MlmVocabulary> MlmVocabularyOf(const Tokenizer& tokenizer);

// Words as transformers' collator finds them: tokens whose texts touch, so that punctuation belongs to the word that it
// is written to. One number a token, -1 for special ones.
std::vector<int32_t> WordsOfOffsets(absl::Span<const std::pair<int64_t, int64_t>> offsets,
                                    absl::Span<const uint8_t> is_special);

// A text as token ids, with what is known of them besides; lists that are not empty are as long as `ids`.
struct MlmText {
  absl::Span<const int32_t> ids;
  absl::Span<const uint8_t> is_special = {};  // empty: those of the vocabulary
  absl::Span<const int32_t> words = {};       // of whole words: which word a token is of; empty: the vocabulary says
};

struct MaskedTokens {
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;  // the token that was there where one was chosen, else kIgnoreLabel
};

class MlmMasking {
 public:
  // InvalidArgument: options out of range, and what MlmVocabularyOf says. A mask id beyond the vocabulary.
  [[nodiscard]] static absl::StatusOr<MlmMasking> Create(const Tokenizer& tokenizer, const MlmOptions& options);
  [[nodiscard]] static absl::StatusOr<MlmMasking> Create(MlmVocabulary vocabulary, const MlmOptions& options);

  // Special tokens are never chosen. A text in which none is chosen, by chance or because it has none but special ones,
  // stays as it is and has no label: nothing is chosen in its place, or short texts would be masked more often.
  // InvalidArgument: whole words are wanted, and neither the text nor the vocabulary tells them.
  [[nodiscard]] absl::StatusOr<MaskedTokens> Mask(const MlmText& text, int64_t epoch, int64_t sample_id) const;

  // Name and value of what must be the same on every rank.
  std::vector<std::pair<std::string, std::string>> Fingerprint() const;

 private:
  MlmMasking(MlmVocabulary vocabulary, const MlmOptions& options)
      : vocabulary_(std::move(vocabulary)), options_(options) {}
  bool IsSpecial(const MlmText& text, size_t i) const;
  // Whether a token belongs to the word of the token before it, which is not special.
  bool ContinuesWord(const MlmText& text, size_t i) const;

  MlmVocabulary vocabulary_;
  MlmOptions options_;
};

}  // namespace distill
