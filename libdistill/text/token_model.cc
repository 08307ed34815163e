#include "libdistill/text/token_model.h"

#include <array>
#include <atomic>
#include <cstring>

#include "absl/hash/hash.h"

namespace distill {
namespace {

// The words of one model that a thread met last, each at one of two places that its hash gives. An entry is two cache
// lines, with all that belongs to it.
class WordCache {
 public:
  static constexpr size_t kMaxBytes = 54, kMaxIds = 16;

  struct Entry {
    uint64_t hash = 0;
    uint8_t bytes = 0, ids = 0;  // no bytes: it is free
    std::array<char, kMaxBytes> word;
    std::array<int32_t, kMaxIds> id;
  };

  // nullptr: it is not there. `word` has 1 to kMaxBytes bytes.
  const Entry* Find(absl::string_view word, uint64_t hash) const {
    for (const uint64_t place : {hash, hash ^ 1}) {
      const Entry& entry = entries_[place % kEntries];
      const bool is_same = entry.hash == hash && entry.bytes == word.size() &&
                           std::memcmp(entry.word.data(), word.data(), word.size()) == 0;
      if (is_same) return &entry;
    }
    return nullptr;
  }

  void Put(absl::string_view word, uint64_t hash, const int32_t* ids, size_t count) {
    if (count > kMaxIds) return;
    Entry& entry = entries_[hash % kEntries];
    entries_[(hash ^ 1) % kEntries] = entry;  // the one before it goes
    entry.hash = hash;
    entry.bytes = static_cast<uint8_t>(word.size());
    entry.ids = static_cast<uint8_t>(count);
    std::memcpy(entry.word.data(), word.data(), word.size());
    std::memcpy(entry.id.data(), ids, count * sizeof(int32_t));
  }

 private:
  static constexpr size_t kEntries = 16384;

  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

// This thread's cache of a model. Few threads use more than a teacher's and a student's.
WordCache& CacheOf(uint64_t model) {
  constexpr size_t kModels = 2;
  struct Kept {
    uint64_t model = 0;
    std::unique_ptr<WordCache> cache;
  };
  thread_local std::array<Kept, kModels> kept;  // the last one used first
  if (kept[0].model == model) return *kept[0].cache;
  std::swap(kept[0], kept[1]);
  if (kept[0].model != model) kept[0] = {model, std::make_unique<WordCache>()};
  return *kept[0].cache;
}

}  // namespace

uint64_t TokenModel::NextNumber() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

void TokenModel::AppendIds(absl::string_view word, std::vector<int32_t>* ids) const {
  const auto append = [&] {
    thread_local std::vector<WordToken> tokens;
    tokens.clear();
    AppendTokens(word, &tokens);
    for (const WordToken& token : tokens) ids->push_back(token.id);
  };
  if (word.empty() || word.size() > WordCache::kMaxBytes) return append();
  WordCache& cache = CacheOf(number_);
  const uint64_t hash = absl::Hash<absl::string_view>()(word);
  if (const WordCache::Entry* found = cache.Find(word, hash)) {
    ids->insert(ids->end(), found->id.begin(), found->id.begin() + found->ids);
    return;
  }
  const size_t begin = ids->size();
  append();
  cache.Put(word, hash, ids->data() + begin, ids->size() - begin);
}

}  // namespace distill
