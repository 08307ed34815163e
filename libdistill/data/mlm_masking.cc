#include "libdistill/data/mlm_masking.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/description.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/token_batch.h"
#include "libdistill/store/content_hash.h"

namespace distill {
namespace {

constexpr char kContinues[] = "##";
constexpr absl::string_view kWordMarks[] = {"\xc4\xa0", "\xe2\x96\x81"};  // "Ġ" of byte-level BPE, "▁" of SentencePiece

// Apart from other uses of the seed: the shuffle draws out of the seed and the epoch as well.
constexpr uint64_t kPurpose = 0x6d6c6d206d61736b;  // "mlm mask"

std::vector<uint8_t> ContinuationsOf(const Tokenizer& tokenizer) {
  const int32_t size = static_cast<int32_t>(tokenizer.vocab_size());
  const auto is_any = [&](absl::string_view mark) {
    for (int32_t id = 0; id < size; ++id) {
      if (!tokenizer.IsSpecial(id) && absl::StartsWith(tokenizer.IdToToken(id), mark)) return true;
    }
    return false;
  };
  const bool is_word_piece = is_any(kContinues);
  absl::string_view mark = kContinues;
  for (const absl::string_view each : kWordMarks) {
    if (!is_word_piece && is_any(each)) mark = each;
  }
  if (mark == kContinues && !is_word_piece) return {};
  std::vector<uint8_t> continues;
  for (int32_t id = 0; id < size; ++id) {
    continues.push_back(absl::StartsWith(tokenizer.IdToToken(id), mark) == is_word_piece);
  }
  return continues;
}

}  // namespace

absl::StatusOr<MlmVocabulary> MlmVocabularyOf(const Tokenizer& tokenizer) {
  const std::optional<int32_t> mask = tokenizer.TokenToId(tokenizer.mask_token());
  if (tokenizer.mask_token().empty() || !mask.has_value()) {
    return absl::InvalidArgumentError(
        "the tokenizer has no mask token, which masked language modelling needs: name it as mask_token in "
        "tokenizer_config.json, or take a tokenizer of an encoder");
  }
  MlmVocabulary vocabulary{.mask_id = *mask, .size = tokenizer.vocab_size()};
  for (int32_t id = 0; id < vocabulary.size; ++id) vocabulary.is_special.push_back(tokenizer.IsSpecial(id));
  vocabulary.continues_word = ContinuationsOf(tokenizer);
  return vocabulary;
}

std::vector<int32_t> WordsOfOffsets(absl::Span<const std::pair<int64_t, int64_t>> offsets,
                                    absl::Span<const uint8_t> is_special) {
  std::vector<int32_t> words;
  int32_t word = -1;
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (is_special[i] != 0) {
      words.push_back(-1);
      continue;
    }
    word += i == 0 || is_special[i - 1] != 0 || offsets[i].first != offsets[i - 1].second;
    words.push_back(word);
  }
  return words;
}

absl::StatusOr<MlmMasking> MlmMasking::Create(const Tokenizer& tokenizer, const MlmOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(MlmVocabulary vocabulary, MlmVocabularyOf(tokenizer));
  return Create(std::move(vocabulary), options);
}

absl::StatusOr<MlmMasking> MlmMasking::Create(MlmVocabulary vocabulary, const MlmOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckOptions(options));
  if (vocabulary.mask_id < 0 || vocabulary.mask_id >= vocabulary.size) {
    return absl::InvalidArgumentError(absl::StrCat("the id of the mask token, ", vocabulary.mask_id,
                                                   ", is none of a vocabulary of ", vocabulary.size));
  }
  return MlmMasking(std::move(vocabulary), options);
}

bool MlmMasking::IsSpecial(const MlmText& text, size_t i) const {
  if (!text.is_special.empty()) return text.is_special[i] != 0;
  const size_t id = static_cast<size_t>(text.ids[i]);
  return id < vocabulary_.is_special.size() && vocabulary_.is_special[id] != 0;
}

bool MlmMasking::ContinuesWord(const MlmText& text, size_t i) const {
  if (!text.words.empty()) return text.words[i] == text.words[i - 1];
  const size_t id = static_cast<size_t>(text.ids[i]);
  return id < vocabulary_.continues_word.size() && vocabulary_.continues_word[id] != 0;
}

absl::StatusOr<MaskedTokens> MlmMasking::Mask(const MlmText& text, int64_t epoch, int64_t sample_id) const {
  const bool by_words = options_.whole_word_mask;
  if (by_words && text.words.empty() && vocabulary_.continues_word.empty()) {
    return absl::InvalidArgumentError(
        "whole_word_mask: the tokenizer's tokens do not tell where words begin (\"##\", a space or \"▁\"); give "
        "samples a tensor \"words\", which word each token is of, or set it to false");
  }
  Random random(Random(options_.seed ^ kPurpose, static_cast<uint64_t>(epoch)).Next(),
                static_cast<uint64_t>(sample_id));
  MaskedTokens masked{{text.ids.begin(), text.ids.end()}, std::vector<int32_t>(text.ids.size(), kIgnoreLabel)};
  bool was_special = true, is_chosen = false;
  for (size_t i = 0; i < text.ids.size(); ++i) {
    const bool is_special = IsSpecial(text, i);
    const bool is_of_word = by_words && !is_special && !was_special && ContinuesWord(text, i);
    was_special = is_special;
    if (is_special) continue;
    if (!is_of_word) is_chosen = random.Uniform() < options_.mlm_probability;
    if (!is_chosen) continue;
    masked.labels[i] = text.ids[i];
    const double replaced = by_words ? 0 : random.Uniform();
    if (by_words || replaced < options_.mask_replace_prob) {
      masked.ids[i] = vocabulary_.mask_id;
    } else if (replaced < options_.mask_replace_prob + options_.random_replace_prob) {
      masked.ids[i] = static_cast<int32_t>(random.Below(static_cast<uint64_t>(vocabulary_.size)));
    }
  }
  return masked;
}

std::vector<std::pair<std::string, std::string>> MlmMasking::Fingerprint() const {
  FieldValues fields = ValuesOf(options_);
  ContentHash hash;
  for (const std::vector<uint8_t>* marks : {&vocabulary_.is_special, &vocabulary_.continues_word}) {
    hash.Add(absl::string_view(reinterpret_cast<const char*>(marks->data()), marks->size()));
  }
  fields.emplace_back("mask token", absl::StrCat(vocabulary_.mask_id, " of ", vocabulary_.size));
  fields.emplace_back("special tokens and words", hash.Hex());
  return fields;
}

}  // namespace distill
