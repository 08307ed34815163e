#include "libdistill/data/mlm_masking.h"

#include <cmath>
#include <set>

#include "libdistill/data/collate.h"
#include "libdistill/data/token_batch.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

constexpr int32_t kCls = 1, kSep = 2, kMask = 3, kVocabulary = 1000;

// Ids below 5 are special, odd ids continue the word before them.
MlmVocabulary Words() {
  MlmVocabulary vocabulary{.mask_id = kMask, .size = kVocabulary, .is_special = {1, 1, 1, 1, 1}};
  for (int32_t id = 0; id < kVocabulary; ++id) vocabulary.continues_word.push_back(id % 2);
  return vocabulary;
}

MlmMasking Masking(const MlmOptions& options = {}) {
  auto masking = MlmMasking::Create(Words(), options);
  REQUIRE(masking.ok());
  return *std::move(masking);
}

// Whether a count is what so many draws of this chance make, within five standard deviations.
bool IsLikely(int64_t count, int64_t draws, double chance) {
  const double expected = static_cast<double>(draws) * chance;
  return std::abs(static_cast<double>(count) - expected) < 5 * std::sqrt(expected * (1 - chance)) + 1;
}

TEST_CASE(
    "15% of the tokens are chosen, of which 80% become the mask, 10% any token and 10% stay; special ones never") {
  const std::vector<int32_t> ids = {kCls, 10, 11, 12, kMask, 14, 16, 0, 18, kSep};
  const MlmMasking masking = Masking();
  int64_t chosen = 0, masked = 0, kept = 0, other = 0;
  std::set<int32_t> drawn;
  const int64_t samples = 40000;
  for (int64_t sample = 0; sample < samples; ++sample) {
    const MaskedTokens tokens = masking.Mask({.ids = ids}, /*epoch=*/3, sample).value();
    REQUIRE(tokens.ids.size() == ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      if (tokens.labels[i] == kIgnoreLabel) {
        if (tokens.ids[i] != ids[i]) FAIL("a token that was not chosen is another one");
        continue;
      }
      if (ids[i] < 5 || tokens.labels[i] != ids[i]) FAIL("a special token was chosen, or a label is another token");
      ++chosen;
      masked += tokens.ids[i] == kMask;
      kept += tokens.ids[i] == ids[i];
      if (tokens.ids[i] != kMask && tokens.ids[i] != ids[i]) ++other, drawn.insert(tokens.ids[i]);
    }
  }
  CHECK(IsLikely(chosen, 6 * samples, 0.15));
  CHECK(IsLikely(masked, chosen, 0.8 + 0.1 / kVocabulary));
  CHECK(IsLikely(kept, chosen, 0.1 + 0.1 / kVocabulary));
  CHECK(IsLikely(other, chosen, 0.1));
  CHECK(drawn.size() > 900);  // of the whole vocabulary
  CHECK(*drawn.rbegin() < kVocabulary);
}

TEST_CASE("a mask is a function of seed, epoch and sample") {
  std::vector<int32_t> ids(200, 10);
  const auto labels = [&](uint64_t seed, int64_t epoch, int64_t sample) {
    return Masking({.seed = seed}).Mask({.ids = ids}, epoch, sample).value().labels;
  };
  const auto first = labels(1, 0, 0);
  CHECK(labels(1, 0, 0) == first);
  CHECK(labels(1, 1, 0) != first);
  CHECK(labels(1, 0, 1) != first);
  CHECK(labels(2, 0, 0) != first);
  CHECK(labels(1, 1, 0) != labels(1, 0, 1));
}

TEST_CASE("whole words are masked with all of their tokens, each with the chance of a token") {
  // Words by the vocabulary: 10 11 11 | 12 | 14 15; after a special token a word begins whatever its first token is.
  const std::vector<int32_t> ids = {kCls, 10, 11, 11, 12, 14, 15, kSep, 11, 13};
  const std::vector<int32_t> by_vocabulary = {-1, 0, 0, 0, 1, 2, 2, -1, 3, 3};
  const std::vector<int32_t> given = {-1, 0, 1, 1, 1, 2, 3, -1, 3, 3};
  for (const bool is_given : {false, true}) {
    const std::vector<int32_t>& words = is_given ? given : by_vocabulary;
    const MlmMasking masking = Masking({.whole_word_mask = true});
    std::vector<int64_t> chosen(ids.size(), 0);
    const int64_t samples = 20000;
    for (int64_t sample = 0; sample < samples; ++sample) {
      const MlmText text{.ids = ids, .words = is_given ? absl::MakeConstSpan(given) : absl::Span<const int32_t>()};
      const MaskedTokens tokens = masking.Mask(text, 0, sample).value();
      for (size_t i = 0; i < ids.size(); ++i) {
        const bool is_chosen = tokens.labels[i] != kIgnoreLabel;
        chosen[i] += is_chosen;
        if (tokens.ids[i] != (is_chosen ? kMask : ids[i])) FAIL("a chosen token is not the mask, or another one is");
        const bool is_same_word = i > 0 && words[i] >= 0 && words[i] == words[i - 1];
        if (is_same_word && is_chosen != (tokens.labels[i - 1] != kIgnoreLabel)) FAIL("a word is masked in part");
      }
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      INFO("token " << i);
      CHECK((words[i] < 0 ? chosen[i] == 0 : IsLikely(chosen[i], samples, 0.15)));
    }
  }
}

TEST_CASE("words by offsets are those whose texts touch") {
  // "[CLS] un ##do ##able , here [SEP]" of "undoable, here"
  const std::vector<std::pair<int64_t, int64_t>> offsets = {{0, 0}, {0, 2}, {2, 4}, {4, 8}, {8, 9}, {10, 14}, {0, 0}};
  CHECK(WordsOfOffsets(offsets, std::vector<uint8_t>{1, 0, 0, 0, 0, 0, 1}) ==
        std::vector<int32_t>{-1, 0, 0, 0, 0, 1, -1});
}

TEST_CASE("a text without a token that may be masked stays as it is") {
  for (const std::vector<int32_t>& ids : {std::vector<int32_t>{}, {kCls, kSep}}) {
    const MaskedTokens tokens = Masking({.mlm_probability = 1}).Mask({.ids = ids}, 0, 0).value();
    CHECK(tokens.ids == ids);
    CHECK(tokens.labels == std::vector<int32_t>(ids.size(), kIgnoreLabel));
  }
}

TEST_CASE("rows are padded beside their masks, cut before them, and differ by epoch") {
  std::vector<SampleRow> rows;
  for (int64_t id = 0; id < 2; ++id) {
    std::vector<int32_t> ids(id == 0 ? 6 : 40, 10);
    ids[0] = 11;
    const std::vector<uint8_t> is_special(ids.size(), 0);
    rows.push_back({Sample{id, {{"ids", HostTensor(ids)}, {"is_special", HostTensor(is_special)}}}});
  }
  const MlmMasking masking = Masking({.mlm_probability = 0.5});
  const auto batch = CollateMasked(DealtRows(rows, 1), masking, /*max_length=*/30, /*pad_id=*/0);
  REQUIRE(batch.ok());
  CHECK(batch->length == 30);
  CHECK(batch->document_starts == std::vector<std::vector<int64_t>>{{0, 6}, {0, 30}});
  CHECK(batch->sample_ids == std::vector<int64_t>{0, 1});
  CHECK(batch->num_loss_tokens() > 5);
  for (size_t i = 6; i < 30; ++i) CHECK((batch->input_ids[i] == 0 && batch->labels[i] == kIgnoreLabel));
  CHECK(CollateMasked(DealtRows(rows, 1), masking, 30, 0)->input_ids == batch->input_ids);
  CHECK(CollateMasked(DealtRows(rows, 2), masking, 30, 0)->labels != batch->labels);

  rows[1][0].tensors["words"] = HostTensor(std::vector<int32_t>{1, 2});
  CHECK(CollateMasked(DealtRows(rows, 1), masking, 30, 0).status() ==
        absl::InvalidArgumentError("sample 1 has 40 ids, but 2 numbers of words"));
}

TEST_CASE("masking that cannot be is refused with what to do") {
  const auto error = [](MlmVocabulary vocabulary, const MlmOptions& options) {
    return std::string(MlmMasking::Create(std::move(vocabulary), options).status().message());
  };
  CHECK(error(Words(), {.mlm_probability = 1.5}) == "mlm_probability: must be at least 0 and at most 1, not 1.5");
  CHECK(error(Words(), {.random_replace_prob = 0.3}) ==
        "mask_replace_prob and random_replace_prob are together more than 1");
  CHECK(error({.mask_id = 7, .size = 7}, {}) == "the id of the mask token, 7, is none of a vocabulary of 7");
  const auto masking = MlmMasking::Create({.mask_id = 3, .size = 7}, {.whole_word_mask = true});
  REQUIRE(masking.ok());
  const std::vector<int32_t> ids = {5};
  CHECK(absl::StrContains(std::string(masking->Mask({.ids = ids}, 0, 0).status().message()),
                          "give samples a tensor \"words\""));
}

}  // namespace
}  // namespace distill
