// Of all adjacent pairs the one with the lowest rank is merged, the leftmost of equals first, until none has a rank.
// A word of n symbols: up to kScanSymbols a scan over an array of ranks finds it, O(n) a merge but all in one cache
// line or two; beyond, a heap of candidates over a linked list, O(n log n) in total, so that a megabyte without spaces
// is no attack. A candidate whose symbols changed since it was pushed is recognised when it is popped. Words repeat
// (Zipf), so the ids of short ones are kept, in shards that threads seldom share.
#include "libdistill/text/byte_pair_encoder.h"

#include <algorithm>
#include <array>
#include <limits>
#include <queue>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "libdistill/core/utf8.h"
#include "libdistill/text/byte_level.h"

namespace distill {
namespace {

constexpr size_t kScanSymbols = 48;
constexpr size_t kCacheShards = 16;
constexpr size_t kCacheWordsPerShard = 4096;
constexpr size_t kCacheWordBytes = 64;
constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();

struct Merge {
  uint32_t rank = kNoRank;
  int32_t id = 0;  // of the merged token
};

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

struct CacheShard {
  absl::Mutex mutex;
  absl::flat_hash_map<std::string, std::vector<int32_t>> words;
};

}  // namespace

struct BytePairEncoder::Impl {
  absl::flat_hash_map<uint64_t, Merge> merges;
  absl::flat_hash_map<std::string, int32_t> whole_words;  // by bytes; only with ignore_merges
  std::array<int32_t, 256> byte_ids;                      // -1: no token
  int32_t unk_id = -1;
  bool fuse_unk = false;
  mutable std::array<CacheShard, kCacheShards> cache;

  Merge Find(int32_t left, int32_t right) const {
    const auto found = merges.find(PairKey(left, right));
    return found == merges.end() ? Merge{} : found->second;
  }
  void Merged(absl::string_view word, std::vector<int32_t>* ids) const;
  void MergeByScan(std::vector<int32_t>* symbols) const;
  void MergeByHeap(std::vector<int32_t>* symbols) const;
  std::vector<int32_t> Symbols(absl::string_view word) const;
};

absl::StatusOr<BytePairEncoder> BytePairEncoder::Create(const BpeSpec& spec) {
  auto impl = std::make_shared<Impl>();
  const auto id_of = [&spec](const std::string& token) {
    const auto found = spec.vocab.find(token);
    return found == spec.vocab.end() ? -1 : found->second;
  };
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    AppendUtf8(ByteLevelCharacter(static_cast<uint8_t>(byte)), &token);
    impl->byte_ids[byte] = id_of(token);
  }
  impl->merges.reserve(spec.merges.size());
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const auto& [left, right] = spec.merges[rank];
    for (const std::string& token : {left, right, left + right}) {
      if (id_of(token) >= 0) continue;
      return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " ('", left, "' + '", right, "') names '", token,
                                                     "', which is not in the vocabulary"));
    }
    impl->merges[PairKey(id_of(left), id_of(right))] = {static_cast<uint32_t>(rank), id_of(left + right)};
  }
  if (!spec.unk_token.empty()) {
    impl->unk_id = id_of(spec.unk_token);
    if (impl->unk_id < 0) {
      return absl::InvalidArgumentError(absl::StrCat("unk_token '", spec.unk_token, "' is not in the vocabulary"));
    }
  }
  impl->fuse_unk = spec.fuse_unk;
  if (spec.ignore_merges) {
    std::string bytes;
    for (const auto& [token, id] : spec.vocab) {
      if (DecodeByteLevel(token, &bytes)) impl->whole_words.emplace(bytes, id);
    }
  }
  return BytePairEncoder(std::move(impl));
}

void BytePairEncoder::Encode(absl::string_view word, std::vector<int32_t>* ids) const {
  if (word.size() > kCacheWordBytes) return impl_->Merged(word, ids);
  CacheShard& shard = impl_->cache[absl::Hash<absl::string_view>()(word) % kCacheShards];
  {
    absl::MutexLock lock(&shard.mutex);
    if (const auto found = shard.words.find(word); found != shard.words.end()) {
      ids->insert(ids->end(), found->second.begin(), found->second.end());
      return;
    }
  }
  const size_t begin = ids->size();
  impl_->Merged(word, ids);
  absl::MutexLock lock(&shard.mutex);
  if (shard.words.size() < kCacheWordsPerShard) {
    shard.words.emplace(std::string(word), std::vector<int32_t>(ids->begin() + begin, ids->end()));
  }
}

void BytePairEncoder::Impl::Merged(absl::string_view word, std::vector<int32_t>* ids) const {
  if (!whole_words.empty()) {
    if (const auto found = whole_words.find(word); found != whole_words.end()) {
      ids->push_back(found->second);
      return;
    }
  }
  std::vector<int32_t> symbols = Symbols(word);
  symbols.size() <= kScanSymbols ? MergeByScan(&symbols) : MergeByHeap(&symbols);
  ids->insert(ids->end(), symbols.begin(), symbols.end());
}

std::vector<int32_t> BytePairEncoder::Impl::Symbols(absl::string_view word) const {
  std::vector<int32_t> symbols;
  symbols.reserve(word.size());
  bool in_unknown_run = false;
  for (const char c : word) {
    const int32_t id = byte_ids[static_cast<uint8_t>(c)];
    if (id >= 0) {
      symbols.push_back(id);
    } else if (unk_id >= 0 && !(fuse_unk && in_unknown_run)) {
      symbols.push_back(unk_id);
    }
    in_unknown_run = id < 0;
  }
  return symbols;
}

void BytePairEncoder::Impl::MergeByScan(std::vector<int32_t>* symbols) const {
  std::array<Merge, kScanSymbols> pairs;  // pairs[i]: symbols i and i + 1
  size_t count = symbols->size();
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = Find((*symbols)[i], (*symbols)[i + 1]);
  while (count > 1) {
    const auto best = std::min_element(pairs.begin(), pairs.begin() + (count - 1),
                                       [](const Merge& a, const Merge& b) { return a.rank < b.rank; });
    if (best->rank == kNoRank) break;
    const size_t i = static_cast<size_t>(best - pairs.begin());
    (*symbols)[i] = best->id;
    symbols->erase(symbols->begin() + i + 1);
    std::copy(pairs.begin() + i + 1, pairs.begin() + (count - 1), pairs.begin() + i);
    --count;
    if (i > 0) pairs[i - 1] = Find((*symbols)[i - 1], (*symbols)[i]);
    if (i + 1 < count) pairs[i] = Find((*symbols)[i], (*symbols)[i + 1]);
  }
}

void BytePairEncoder::Impl::MergeByHeap(std::vector<int32_t>* symbols) const {
  struct Node {
    int32_t id;
    int64_t previous, next;  // -1: none
  };
  using Candidate = std::pair<uint32_t, int64_t>;  // rank, position of the left symbol
  const int64_t count = static_cast<int64_t>(symbols->size());
  std::vector<Node> nodes(symbols->size());
  for (int64_t i = 0; i < count; ++i) nodes[i] = {(*symbols)[i], i - 1, i + 1 < count ? i + 1 : -1};
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  const auto merge_at = [&](int64_t i) {
    return i < 0 || nodes[i].id < 0 || nodes[i].next < 0 ? Merge{} : Find(nodes[i].id, nodes[nodes[i].next].id);
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
    nodes[i] = {merge.id, nodes[i].previous, nodes[right].next};
    if (nodes[i].next >= 0) nodes[nodes[i].next].previous = i;
    nodes[right].id = -1;  // gone
    push(nodes[i].previous);
    push(i);
  }
  symbols->clear();
  for (int64_t i = 0; i >= 0 && i < count; i = nodes[i].next) symbols->push_back(nodes[i].id);
}

}  // namespace distill
