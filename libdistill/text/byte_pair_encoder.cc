// Words are cut into bytes or characters, which ExactMerges makes tokens of. Where it cannot, a heap does.
#include "libdistill/text/byte_pair_encoder.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/byte_level.h"
#include "libdistill/text/exact_merges.h"
#include "libdistill/text/heap_merges.h"

namespace distill {
namespace {

constexpr char kMark[] = "\xE2\x96\x81";  // U+2581

class BytePairEncoder final : public TokenModel {
 public:
  [[nodiscard]] absl::Status Init(const Vocabulary& vocab, const BpeOptions& options);

  void AppendTokens(absl::string_view word, std::vector<WordToken>* tokens) const override;
  size_t EndOfPart(absl::string_view word, size_t begin) const override;

 private:
  [[nodiscard]] absl::Status InitMerges(const Vocabulary& vocab, const BpeOptions& options);
  void InitSymbols(const Vocabulary& vocab, const BpeOptions& options);
  void InitExact(const std::vector<ExactMerges::Rule>& rules);
  void InitWholeWords(const Vocabulary& vocab);
  void InitParts(const Vocabulary& vocab);

  void AppendByHeap(absl::string_view word, std::vector<WordToken>* tokens) const;
  int32_t IdAt(absl::string_view word, size_t* position) const;
  template <class TakeKnown, class TakeSymbol>
  void ForEachRun(absl::string_view word, const TakeKnown& take_known, const TakeSymbol& take_symbol) const;
  bool FallsBack(absl::string_view character) const;

  std::optional<ExactMerges> exact_;  // else merges_
  std::optional<PairTable> merges_;
  Vocabulary whole_words_;  // only with ignore_merges: those that merging does not make
  bool is_byte_level_ = false, has_all_bytes_ = false;
  std::array<int32_t, 256> byte_ids_;                  // of the alphabet, or of <0x00> to <0xFF>; -1: no token
  absl::flat_hash_map<char32_t, int32_t> characters_;  // where words are not bytes
  bool cuts_at_marks_ = false;
  std::bitset<256> stands_before_mark_;  // the last byte, in a token
  int32_t unk_id_ = -1;
  bool fuse_unk_ = false;
};

absl::Status BytePairEncoder::Init(const Vocabulary& vocab, const BpeOptions& options) {
  is_byte_level_ = options.is_byte_level;
  fuse_unk_ = options.fuse_unk;
  InitSymbols(vocab, options);
  has_all_bytes_ = std::all_of(byte_ids_.begin(), byte_ids_.end(), [](int32_t id) { return id >= 0; });
  if (is_byte_level_ && options.byte_fallback && !has_all_bytes_) {
    return absl::InvalidArgumentError(
        "byte_fallback beside ByteLevel whose bytes are not all in the vocabulary is not supported");
  }
  if (!options.unk_token.empty()) {
    const auto found = vocab.find(options.unk_token);
    if (found == vocab.end()) {
      return absl::InvalidArgumentError(absl::StrCat("unk_token '", options.unk_token, "' is not in the vocabulary"));
    }
    unk_id_ = found->second;
  }
  DISTILL_RETURN_IF_ERROR(InitMerges(vocab, options));
  if (options.ignore_merges) InitWholeWords(vocab);
  InitParts(vocab);
  return absl::OkStatus();
}

void BytePairEncoder::InitWholeWords(const Vocabulary& vocab) {
  for (const auto& [token, id] : vocab) {
    if (exact_ && exact_->Makes(id)) continue;
    std::string bytes = token;
    if (!is_byte_level_ || DecodeByteLevel(token, &bytes)) whole_words_.emplace(bytes, id);
  }
}

void BytePairEncoder::InitSymbols(const Vocabulary& vocab, const BpeOptions& options) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    if (is_byte_level_) {
      AppendUtf8(ByteLevelCharacter(static_cast<uint8_t>(byte)), &token);
    } else if (options.byte_fallback) {
      token = absl::StrFormat("<0x%02X>", byte);
    }
    const auto found = vocab.find(token);
    byte_ids_[byte] = token.empty() || found == vocab.end() ? -1 : found->second;
  }
  if (is_byte_level_) return;
  for (const auto& [token, id] : vocab) {
    size_t end = 0;
    if (token.empty()) continue;
    const char32_t character = NextCodePoint(token, &end);
    if (end == token.size()) characters_.emplace(character, id);
  }
}

absl::Status BytePairEncoder::InitMerges(const Vocabulary& vocab, const BpeOptions& options) {
  merges_.emplace(options.merges.size());
  std::vector<ExactMerges::Rule> rules;
  for (size_t rank = 0; rank < options.merges.size(); ++rank) {
    const auto& [left, right] = options.merges[rank];
    std::array<int32_t, 3> ids;
    for (size_t i = 0; const std::string& token : {left, right, left + right}) {
      const auto found = vocab.find(token);
      if (found == vocab.end()) {
        return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " ('", left, "' + '", right, "') names '", token,
                                                       "', which is not in the vocabulary"));
      }
      ids[i++] = found->second;
    }
    merges_->Put(ids[0], ids[1], {static_cast<uint32_t>(rank), ids[2]});
    rules.push_back({ids[0], ids[1], ids[2]});
  }
  InitExact(rules);
  return absl::OkStatus();
}

// Where bytes or characters without tokens keep their neighbours apart.
void BytePairEncoder::InitExact(const std::vector<ExactMerges::Rule>& rules) {
  if (!has_all_bytes_ && unk_id_ < 0) return;  // they are left out
  const auto is_apart = [this](int32_t id) {
    return id == unk_id_ || (!is_byte_level_ && std::find(byte_ids_.begin(), byte_ids_.end(), id) != byte_ids_.end());
  };
  std::vector<ExactMerges::Rule> last;  // of rules for the same pair the last one counts
  for (size_t rank = 0; rank < rules.size(); ++rank) {
    const ExactMerges::Rule& rule = rules[rank];
    if (is_apart(rule.left) || is_apart(rule.right)) return;
    if (merges_->Of(rule.left, rule.right).rank == rank) last.push_back(rule);
  }
  ExactMerges::Symbols symbols;
  for (const auto& [character, id] : characters_) {
    AppendUtf8(character, &symbols.emplace_back("", id).first);
  }
  for (int byte = 0; is_byte_level_ && byte < 256; ++byte) {
    if (byte_ids_[byte] >= 0) symbols.emplace_back(std::string(1, static_cast<char>(byte)), byte_ids_[byte]);
  }
  exact_ = ExactMerges::Of(symbols, last);
  if (exact_) merges_.reset();
}

void BytePairEncoder::AppendTokens(absl::string_view word, std::vector<WordToken>* tokens) const {
  if (!whole_words_.empty()) {
    if (const auto found = whole_words_.find(word); found != whole_words_.end()) {
      tokens->push_back({found->second, 0, static_cast<uint32_t>(word.size())});
      return;
    }
  }
  if (!exact_) return AppendByHeap(word, tokens);
  uint32_t place = 0;
  const auto take_known = [&](absl::string_view text) {
    const size_t known = exact_->Append(text, place, tokens);
    place += static_cast<uint32_t>(known);
    return known;
  };
  const auto take_symbol = [&](const MergeSymbol& symbol) {
    tokens->push_back({symbol.id, place, place + symbol.size});
    place += symbol.size;
  };
  ForEachRun(word, take_known, take_symbol);
}

void BytePairEncoder::AppendByHeap(absl::string_view word, std::vector<WordToken>* tokens) const {
  std::vector<MergeSymbol> symbols;
  symbols.reserve(word.size());
  const auto take_known = [&](absl::string_view text) {
    size_t begin = 0;
    for (size_t end = 0; begin < text.size(); begin = end) {
      const int32_t id = IdAt(text, &end);
      if (id < 0) break;
      symbols.push_back({id, static_cast<uint32_t>(end - begin)});
    }
    return begin;
  };
  ForEachRun(word, take_known, [&](const MergeSymbol& symbol) { symbols.push_back(symbol); });
  MergeByHeap(*merges_, &symbols);
  uint32_t at = 0;
  for (const MergeSymbol& symbol : symbols) {
    tokens->push_back({symbol.id, at, at + symbol.size});
    at += symbol.size;
  }
}

// The token of the byte or character at `position`, which moves on; -1: it has none.
int32_t BytePairEncoder::IdAt(absl::string_view word, size_t* position) const {
  if (is_byte_level_) return byte_ids_[static_cast<uint8_t>(word[(*position)++])];
  const auto found = characters_.find(NextCodePoint(word, position));
  return found == characters_.end() ? -1 : found->second;
}

// Takes the word in turns: take_known(rest) those bytes or characters of its beginning that have tokens, and returns
// how many bytes these are; take_symbol what stands for one without.
template <class TakeKnown, class TakeSymbol>
void BytePairEncoder::ForEachRun(absl::string_view word, const TakeKnown& take_known,
                                 const TakeSymbol& take_symbol) const {
  uint32_t unknown = 0;  // bytes in a row without tokens; `tokenizers` lets bytes that fall back overtake them
  const auto end_unknown = [&] {
    if (unknown > 0) take_symbol(MergeSymbol{unk_id_, unknown});
    unknown = 0;
  };
  for (size_t at = 0; at < word.size();) {
    if (size_t begin = at; unknown > 0 && IdAt(word, &begin) >= 0) end_unknown();
    at += take_known(word.substr(at));
    if (at == word.size()) break;
    const size_t begin = at;
    IdAt(word, &at);
    const absl::string_view character = word.substr(begin, at - begin);
    if (FallsBack(character)) {
      for (const char byte : character) take_symbol(MergeSymbol{byte_ids_[static_cast<uint8_t>(byte)], 1});
    } else if (unk_id_ >= 0) {
      if (!fuse_unk_) end_unknown();
      unknown += static_cast<uint32_t>(character.size());
    }
  }
  end_unknown();
}

// SentencePiece's words are whole texts, with a mark for each space. Where no token has what stands before a mark
// together with it, no merge crosses: there parts begin.
size_t BytePairEncoder::EndOfPart(absl::string_view word, size_t begin) const {
  if (!cuts_at_marks_) return word.size();
  for (size_t at = begin; (at = word.find(kMark, at + 1)) != absl::string_view::npos;) {
    if (!stands_before_mark_[static_cast<uint8_t>(word[at - 1])]) return at;
  }
  return word.size();
}

void BytePairEncoder::InitParts(const Vocabulary& vocab) {
  const auto mark = vocab.find(kMark);  // one without a token may be one unknown with what stands before it
  cuts_at_marks_ = exact_ && !is_byte_level_ && whole_words_.empty() && mark != vocab.end();
  for (const auto& [token, id] : vocab) {
    if (!cuts_at_marks_ || !exact_->Makes(id)) continue;
    for (size_t at = 0; (at = token.find(kMark, at + 1)) != std::string::npos;) {
      stands_before_mark_.set(static_cast<uint8_t>(token[at - 1]));
    }
  }
}

// To tokens of its bytes, of which each has one.
bool BytePairEncoder::FallsBack(absl::string_view character) const {
  return !is_byte_level_ && std::all_of(character.begin(), character.end(),
                                        [this](char byte) { return byte_ids_[static_cast<uint8_t>(byte)] >= 0; });
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenModel>> MakeBytePairEncoder(const Vocabulary& vocab,
                                                                      const BpeOptions& options) {
  auto encoder = std::make_shared<BytePairEncoder>();
  DISTILL_RETURN_IF_ERROR(encoder->Init(vocab, options));
  return encoder;
}

}  // namespace distill
