// Of all adjacent pairs the one with the lowest rank is merged, the leftmost of equals first, until none has a rank.
// A word of n symbols: up to kScanSymbols a scan over an array of ranks finds it, O(n) a merge but all in one cache
// line or two; beyond, a heap of candidates over a linked list, O(n log n) in total, so that a megabyte without spaces
// is no attack. A candidate whose symbols changed since it was pushed is recognised when it is popped.
#include "libdistill/text/byte_pair_encoder.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <queue>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/byte_level.h"

namespace distill {
namespace {

constexpr size_t kScanSymbols = 48;
constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();

struct Merge {
  uint32_t rank = kNoRank;
  int32_t id = 0;  // of the merged token
};

struct Symbol {
  int32_t id;
  uint32_t size;  // bytes of the word
};

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

class BytePairEncoder final : public TokenModel {
 public:
  [[nodiscard]] absl::Status Init(const Vocabulary& vocab, const BpeOptions& options);

  void AppendTokens(absl::string_view word, std::vector<WordToken>* tokens) const override;

 private:
  [[nodiscard]] absl::Status InitMerges(const Vocabulary& vocab, const BpeOptions& options);
  void InitSymbols(const Vocabulary& vocab, const BpeOptions& options);

  Merge Find(int32_t left, int32_t right) const {
    const auto found = merges_.find(PairKey(left, right));
    return found == merges_.end() ? Merge{} : found->second;
  }
  std::vector<Symbol> SymbolsOf(absl::string_view word) const;
  std::optional<int32_t> IdAt(absl::string_view word, size_t* position) const;
  bool AppendBytes(absl::string_view character, std::vector<Symbol>* symbols) const;
  void MergeByScan(std::vector<Symbol>* symbols) const;
  void MergeByHeap(std::vector<Symbol>* symbols) const;

  absl::flat_hash_map<uint64_t, Merge> merges_;
  Vocabulary whole_words_;  // only with ignore_merges
  bool is_byte_level_ = false;
  std::array<int32_t, 256> byte_ids_;                  // of the alphabet, or of <0x00> to <0xFF>; -1: no token
  absl::flat_hash_map<char32_t, int32_t> characters_;  // where words are not bytes
  int32_t unk_id_ = -1;
  bool fuse_unk_ = false;
};

absl::Status BytePairEncoder::Init(const Vocabulary& vocab, const BpeOptions& options) {
  is_byte_level_ = options.is_byte_level;
  fuse_unk_ = options.fuse_unk;
  InitSymbols(vocab, options);
  const bool all_bytes = std::all_of(byte_ids_.begin(), byte_ids_.end(), [](int32_t id) { return id >= 0; });
  if (is_byte_level_ && options.byte_fallback && !all_bytes) {
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
  if (options.ignore_merges) {
    for (const auto& [token, id] : vocab) {
      std::string bytes = token;
      if (!is_byte_level_ || DecodeByteLevel(token, &bytes)) whole_words_.emplace(bytes, id);
    }
  }
  return InitMerges(vocab, options);
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
  merges_.reserve(options.merges.size());
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
    merges_[PairKey(ids[0], ids[1])] = {static_cast<uint32_t>(rank), ids[2]};
  }
  return absl::OkStatus();
}

void BytePairEncoder::AppendTokens(absl::string_view word, std::vector<WordToken>* tokens) const {
  if (!whole_words_.empty()) {
    if (const auto found = whole_words_.find(word); found != whole_words_.end()) {
      tokens->push_back({found->second, 0, static_cast<uint32_t>(word.size())});
      return;
    }
  }
  std::vector<Symbol> symbols = SymbolsOf(word);
  symbols.size() <= kScanSymbols ? MergeByScan(&symbols) : MergeByHeap(&symbols);
  uint32_t at = 0;
  for (const Symbol& symbol : symbols) {
    tokens->push_back({symbol.id, at, at + symbol.size});
    at += symbol.size;
  }
}

// The token of the byte or character at `position`, which moves on.
std::optional<int32_t> BytePairEncoder::IdAt(absl::string_view word, size_t* position) const {
  if (is_byte_level_) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(word[(*position)++])];
    return id < 0 ? std::nullopt : std::optional(id);
  }
  const auto found = characters_.find(NextCodePoint(word, position));
  return found == characters_.end() ? std::nullopt : std::optional(found->second);
}

// False where one of the bytes has no token.
bool BytePairEncoder::AppendBytes(absl::string_view character, std::vector<Symbol>* symbols) const {
  const auto id_of = [this](char byte) { return byte_ids_[static_cast<uint8_t>(byte)]; };
  if (!std::all_of(character.begin(), character.end(), [&](char byte) { return id_of(byte) >= 0; })) return false;
  for (const char byte : character) symbols->push_back({id_of(byte), 1});
  return true;
}

std::vector<Symbol> BytePairEncoder::SymbolsOf(absl::string_view word) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  uint32_t unknown = 0;  // bytes of a run without tokens; `tokenizers` lets bytes that fall back overtake it
  const auto end_run = [&] {
    if (unknown > 0) symbols.push_back({unk_id_, unknown});
    unknown = 0;
  };
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    const std::optional<int32_t> id = IdAt(word, &at);
    const auto size = static_cast<uint32_t>(at - begin);
    if (id) {
      end_run();
      symbols.push_back({*id, size});
    } else if (!is_byte_level_ && AppendBytes(word.substr(begin, size), &symbols)) {
      continue;
    } else if (unk_id_ >= 0) {
      if (!fuse_unk_) end_run();
      unknown += size;
    }
  }
  end_run();
  return symbols;
}

void BytePairEncoder::MergeByScan(std::vector<Symbol>* symbols) const {
  std::array<Merge, kScanSymbols> pairs;  // pairs[i]: symbols i and i + 1
  size_t count = symbols->size();
  const auto find = [&](size_t i) { return Find((*symbols)[i].id, (*symbols)[i + 1].id); };
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = find(i);
  while (count > 1) {
    const auto best = std::min_element(pairs.begin(), pairs.begin() + (count - 1),
                                       [](const Merge& a, const Merge& b) { return a.rank < b.rank; });
    if (best->rank == kNoRank) break;
    const size_t i = static_cast<size_t>(best - pairs.begin());
    (*symbols)[i] = {best->id, (*symbols)[i].size + (*symbols)[i + 1].size};
    symbols->erase(symbols->begin() + i + 1);
    std::copy(pairs.begin() + i + 1, pairs.begin() + (count - 1), pairs.begin() + i);
    --count;
    if (i > 0) pairs[i - 1] = find(i - 1);
    if (i + 1 < count) pairs[i] = find(i);
  }
}

void BytePairEncoder::MergeByHeap(std::vector<Symbol>* symbols) const {
  struct Node {
    Symbol symbol;
    int64_t previous, next;  // -1: none
  };
  using Candidate = std::pair<uint32_t, int64_t>;  // rank, position of the left symbol
  const int64_t count = static_cast<int64_t>(symbols->size());
  std::vector<Node> nodes(symbols->size());
  for (int64_t i = 0; i < count; ++i) nodes[i] = {(*symbols)[i], i - 1, i + 1 < count ? i + 1 : -1};
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  const auto merge_at = [&](int64_t i) {
    return i < 0 || nodes[i].symbol.id < 0 || nodes[i].next < 0
               ? Merge{}
               : Find(nodes[i].symbol.id, nodes[nodes[i].next].symbol.id);
  };
  const auto push = [&](int64_t i) {
    if (const Merge merge = merge_at(i); merge.rank != kNoRank) heap.emplace(merge.rank, i);
  };
  for (int64_t i = 0; i < count; ++i) push(i);
  while (!heap.empty()) {
    const auto [rank, i] = heap.top();
    heap.pop();
    const Merge merge = merge_at(i);
    if (merge.rank != rank) continue;
    const int64_t right = nodes[i].next;
    nodes[i] = {{merge.id, nodes[i].symbol.size + nodes[right].symbol.size}, nodes[i].previous, nodes[right].next};
    if (nodes[i].next >= 0) nodes[nodes[i].next].previous = i;
    nodes[right].symbol.id = -1;  // gone
    push(nodes[i].previous);
    push(i);
  }
  symbols->clear();
  for (int64_t i = 0; i >= 0 && i < count; i = nodes[i].next) symbols->push_back(nodes[i].symbol);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenModel>> MakeBytePairEncoder(const Vocabulary& vocab,
                                                                      const BpeOptions& options) {
  auto encoder = std::make_shared<BytePairEncoder>();
  DISTILL_RETURN_IF_ERROR(encoder->Init(vocab, options));
  return encoder;
}

}  // namespace distill
